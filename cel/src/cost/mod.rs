//! What an expression may cost (cel-go `checker/cost.go`, `apiserver/pkg/cel/library/cost.go`).
