package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// Runs shows what depends on the order of a map, which is another each time,
// unless a run takes longer than longRun.
const (
	runs    = 200
	longRun = 20 * time.Millisecond
)

// wantExpression is what came of an expression: compileError, programError, or
// the type, the estimate and then value or error. Where runs differ there are
// values and costs instead of value and cost.
type wantExpression struct {
	// Panic is what upstream panics with: a bug of it, and a 500 of a server.
	Panic        string    `json:"panic,omitempty"`
	CompileError string    `json:"compileError,omitempty"`
	ProgramError string    `json:"programError,omitempty"`
	Type         string    `json:"type,omitempty"`
	Estimate     *estimate `json:"estimate,omitempty"`
	Value        *string   `json:"value,omitempty"`
	Values       []string  `json:"values,omitempty"`
	Error        string    `json:"error,omitempty"`
	Cost         *uint64   `json:"cost,omitempty"`
	Costs        []uint64  `json:"costs,omitempty"`
}

type estimate struct {
	Min uint64 `json:"min"`
	Max uint64 `json:"max"`
}

func (e *expression) record() (want *wantExpression, err error) {
	defer func() {
		if r := recover(); r != nil {
			if ours, ok := r.(noNotation); ok {
				panic(ours)
			}
			want, err = &wantExpression{Panic: fmt.Sprint(r)}, nil
		}
	}()
	var structural *structuralschema.Structural
	var declared *apiservercel.DeclType
	if e.Schema != nil {
		structural, err = readStructural(e.Schema)
		if err != nil {
			return nil, err
		}
		declared = model.SchemaDeclType(structural, e.Root)
		if declared == nil {
			return nil, fmt.Errorf("the schema has no CEL type")
		}
		if e.Root {
			structural = model.WithTypeAndObjectMeta(structural)
		}
	}
	env, err := environmentOf(declared, e.OptionalOldSelf)
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(e.Expr)
	if issues != nil {
		return &wantExpression{CompileError: mask(issues.String())}, nil
	}
	want = &wantExpression{Type: mask(ast.OutputType().String())}
	estimator := estimatorOf(declared)
	cost, err := env.EstimateCost(ast, estimator)
	if err != nil {
		return nil, err
	}
	want.Estimate = &estimate{cost.Min, cost.Max}
	program, err := env.Program(ast,
		cel.CostLimit(celconfig.PerCallLimit),
		cel.CostTracking(estimator),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency),
	)
	if err != nil {
		want.ProgramError = mask(err.Error())
		return want, nil
	}
	variables := map[string]any{}
	if e.Self != nil {
		self, err := read(e.Self)
		if err != nil {
			return nil, err
		}
		variables["self"] = schemacel.UnstructuredToVal(self, structural)
	}
	if e.OptionalOldSelf {
		variables["oldSelf"] = types.OptionalNone
	}
	if e.OldSelf != nil {
		oldSelf, err := read(e.OldSelf)
		if err != nil {
			return nil, err
		}
		value := schemacel.UnstructuredToVal(oldSelf, structural)
		variables["oldSelf"] = value
		if e.OptionalOldSelf {
			variables["oldSelf"] = types.OptionalOf(value)
		}
	}
	activation, err := interpreter.NewActivation(variables)
	if err != nil {
		return nil, err
	}
	var values, failures []string
	var costs []uint64
	started := time.Now()
	for run := range runs {
		if time.Since(started) > longRun*time.Duration(run+1) {
			break
		}
		result, details, err := program.ContextEval(context.Background(), activation)
		if err != nil {
			failures = append(failures, mask(err.Error()))
		} else {
			values = append(values, mask(notation(result)))
		}
		if details == nil || details.ActualCost() == nil {
			return nil, fmt.Errorf("no cost")
		}
		costs = append(costs, *details.ActualCost())
	}
	values, failures, costs = distinct(values), distinct(failures), distinct(costs)
	switch {
	case len(failures) == 1 && len(values) == 0:
		want.Error = failures[0]
	case len(failures) == 0 && len(values) == 1:
		want.Value = &values[0]
	case len(failures) == 0:
		want.Values = values
	default:
		return nil, fmt.Errorf("differs from run to run: %q, %q", values, failures)
	}
	if len(costs) == 1 {
		want.Cost = &costs[0]
	} else {
		want.Costs = costs
	}
	return want, nil
}

func distinct[T string | uint64](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}

// environmentOf gives the environment in which a stored rule is compiled.
func environmentOf(declared *apiservercel.DeclType, optionalOldSelf bool) (*cel.Env, error) {
	base := environment.MustBaseEnvSet(release)
	if declared == nil {
		return base.StoredExpressionsEnv(), nil
	}
	named := declared.MaybeAssignTypeName("selfType1")
	oldType := named.CelType()
	if optionalOldSelf {
		oldType = types.NewOptionalType(oldType)
	}
	extended, err := base.Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable(schemacel.ScopedVarName, named.CelType()),
			cel.Variable(schemacel.OldScopedVarName, oldType),
		},
		DeclTypes: []*apiservercel.DeclType{named},
	})
	if err != nil {
		return nil, err
	}
	return extended.StoredExpressionsEnv(), nil
}

// estimatorOf knows the sizes that the schema bounds, as the one of a CRD's
// rules does, which is not exported.
func estimatorOf(declared *apiservercel.DeclType) *library.CostEstimator {
	if declared == nil {
		return &library.CostEstimator{}
	}
	return &library.CostEstimator{SizeEstimator: sizes{declared}}
}

type sizes struct{ root *apiservercel.DeclType }

func (s sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	if len(node.Path()) == 0 {
		return nil
	}
	at := s.root
	for _, step := range node.Path()[1:] {
		switch step {
		case "@items", "@values":
			at = at.ElemType
		case "@keys":
			at = at.KeyType
		default:
			field := at.Fields[step]
			if field == nil {
				return nil
			}
			at = field.Type
		}
		if at == nil {
			return nil
		}
	}
	return &checker.SizeEstimate{Max: uint64(at.MaxElements)}
}

func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

func readProps(text json.RawMessage) (*apiextensions.JSONSchemaProps, error) {
	var given apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(text, &given); err != nil {
		return nil, err
	}
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&given, &props, nil); err != nil {
		return nil, err
	}
	return &props, nil
}

func readStructural(text json.RawMessage) (*structuralschema.Structural, error) {
	props, err := readProps(text)
	if err != nil {
		return nil, err
	}
	return structuralschema.NewStructural(props)
}
