#!/usr/bin/env bash
# Runs the oracle with the rules that held on v1beta1 until Kubernetes 1.21 (v0.21's validation.go asks for the request's
# version): no schema is required, nor a structural one or known types, defaults may not be added, and neither the
# approval of a group nor preserveUnknownFields is looked at.
#
#   cd integration/oracle && ../../schema/src/crd/tests/oracle/lax.sh < cases > recorded_v1beta1.jsonl
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
module=k8s.io/apiextensions-apiserver
cp -r "$(go list -m -f '{{.Dir}}' $module)" "$folder/patched"
chmod -R u+w "$folder/patched"
source=$folder/patched/pkg/apis/apiextensions/validation/validation.go

update='func ValidateCustomResourceDefinitionUpdate'
reason='(cannot set default values in apiextensions.k8s.io/v1beta1 CRDs, must use apiextensions.k8s.io/v1)'
for field in requireOpenAPISchema requireValidPropertyType requireStructuralSchema; do
    edits+=(-e "s/^\\(\t\t$field:\\).*/\\1 false,/")
done
sed -i "${edits[@]}" \
    -e '/validateAPIApproval(obj/d' -e '/validatePreserveUnknownFields(obj/d' \
    -e "1,/$update/s|^\t\tallowDefaults: .*|allowDefaults: false, disallowDefaultsReason: \"$reason\",|" \
    -e "/$update/,\$s|^\t\tallowDefaults: .*|allowDefaults: specHasDefaults(\&oldObj.Spec), disallowDefaultsReason: \"$reason\",|" \
    "$source"
cp go.mod go.sum "$folder/"
go mod edit -replace "$module=$folder/patched" "$folder/go.mod"
go run -modfile "$folder/go.mod" "$here/main.go"
