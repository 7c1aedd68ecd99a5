package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/google/cel-go/cel"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
)

const (
	apiGroup = "cel.example.com"
	apiKind  = "Case"
)

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	install.Install(s)
	return s
}()

// failure is a field error, as a cause of a Status has it.
type failure struct {
	Reason  string `json:"reason"`
	Field   string `json:"field"`
	Message string `json:"message"`
}

// failures are sorted: where properties or map entries are walked, upstream's
// own order is another each time.
func failures(list field.ErrorList) []failure {
	made := []failure{}
	for _, e := range list {
		made = append(made, failure{string(e.Type), e.Field, mask(e.ErrorBody())})
	}
	sort.Slice(made, func(i, j int) bool {
		return less(made[i].Field, made[j].Field, made[i].Message, made[j].Message)
	})
	return made
}

func less(a, b, aTie, bTie string) bool {
	if a != b {
		return a < b
	}
	return aTie < bTie
}

// wantRegistration is the verdict about a schema and what its rules cost.
type wantRegistration struct {
	Errors []failure `json:"errors"`
	Rules  []rule    `json:"rules,omitempty"`
}

// rule is one compiled rule. The cost is of one evaluation; cardinality says
// how many there may be in one object, and total is the product's maximum.
type rule struct {
	Field           string    `json:"field"`
	Cost            *estimate `json:"cost,omitempty"`
	Cardinality     uint64    `json:"cardinality,omitempty"`
	Total           uint64    `json:"total,omitempty"`
	UsesOldSelf     bool      `json:"usesOldSelf,omitempty"`
	MessageCost     *uint64   `json:"messageCost,omitempty"`
	NormalFieldPath string    `json:"normalFieldPath,omitempty"`
	Refused         bool      `json:"refused,omitempty"`
	MessageRefused  bool      `json:"messageRefused,omitempty"`
}

func definition(schemaText json.RawMessage) (*apiextensions.CustomResourceDefinition, error) {
	var props apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(schemaText, &props); err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "cases." + apiGroup},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: apiGroup,
			Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "cases", Kind: apiKind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &props},
			}},
		},
	}
	scheme.Default(crd)
	var internal apiextensions.CustomResourceDefinition
	if err := scheme.Convert(crd, &internal, nil); err != nil {
		return nil, err
	}
	// The strategy does this before it validates.
	internal.Status.StoredVersions = []string{"v1"}
	return &internal, nil
}

// recordRegistration asks about a create, or with an old schema about an
// update.
func recordRegistration(schemaText, oldText json.RawMessage) (*wantRegistration, error) {
	crd, err := definition(schemaText)
	if err != nil {
		return nil, err
	}
	ask := func() field.ErrorList {
		return validation.ValidateCustomResourceDefinition(context.Background(), crd)
	}
	if oldText != nil {
		old, err := definition(oldText)
		if err != nil {
			return nil, err
		}
		crd.ResourceVersion, old.ResourceVersion = "1", "1"
		ask = func() field.ErrorList {
			return validation.ValidateCustomResourceDefinitionUpdate(context.Background(), crd, old)
		}
	}
	want := &wantRegistration{}
	for run := range 4 {
		got := failures(ask())
		if run > 0 && !slices.Equal(got, want.Errors) {
			return nil, fmt.Errorf("differs from run to run:\n%v\n%v", want.Errors, got)
		}
		want.Errors = got
	}
	if len(want.Errors) == 0 || ruleErrorsOnly(want.Errors) {
		props := crd.Spec.Validation.OpenAPIV3Schema
		if err := walkRules(props, field.NewPath("spec", "validation", "openAPIV3Schema"), validation.RootCELContext(props), &want.Rules); err != nil {
			return nil, err
		}
		sort.Slice(want.Rules, func(i, j int) bool { return want.Rules[i].Field < want.Rules[j].Field })
	}
	return want, nil
}

// ruleErrorsOnly tells whether the rules were compiled at all.
func ruleErrorsOnly(errors []failure) bool {
	for _, e := range errors {
		ofRule := strings.Contains(e.Field, "x-kubernetes-validations") &&
			(strings.HasSuffix(e.Field, ".rule") || strings.HasSuffix(e.Field, ".messageExpression") || strings.HasSuffix(e.Field, ".optionalOldSelf")) &&
			e.Reason != string(field.ErrorTypeRequired)
		total := strings.Contains(e.Message, "estimated rule cost total")
		if !ofRule && !total {
			return false
		}
	}
	return true
}

func walkRules(props *apiextensions.JSONSchemaProps, path *field.Path, at *validation.CELSchemaContext, rules *[]rule) error {
	if len(props.XValidations) > 0 {
		info, err := at.TypeInfo()
		if err != nil {
			return err
		}
		base := environment.MustBaseEnvSet(release)
		results, err := schemacel.Compile(info.Schema, info.DeclType, celconfig.PerCallLimit, base, schemacel.StoredExpressionsEnvLoader())
		if err != nil {
			return err
		}
		for i, result := range results {
			given := props.XValidations[i]
			made := rule{
				Field:           path.Child("x-kubernetes-validations").Index(i).String(),
				UsesOldSelf:     result.UsesOldSelf,
				NormalFieldPath: result.NormalizedRuleFieldPath,
				Refused:         result.Error != nil,
				MessageRefused:  result.MessageExpressionError != nil,
			}
			if result.Program != nil {
				env, err := environmentOf(info.DeclType, given.OptionalOldSelf != nil && *given.OptionalOldSelf)
				if err != nil {
					return err
				}
				least, err := leastCost(env, given.Rule, info)
				if err != nil {
					return err
				}
				made.Cost = &estimate{least, result.MaxCost}
				made.Cardinality = result.MaxCardinality
				if at.MaxCardinality != nil {
					made.Cardinality = *at.MaxCardinality
				}
				made.Total = saturatingProduct(result.MaxCost, made.Cardinality)
			}
			if result.MessageExpression != nil {
				made.MessageCost = &result.MessageExpressionMaxCost
			}
			*rules = append(*rules, made)
		}
	}
	if props.AdditionalProperties != nil && props.AdditionalProperties.Schema != nil {
		child := props.AdditionalProperties.Schema
		if err := walkRules(child, path.Child("additionalProperties"), at.ChildAdditionalPropertiesContext(child), rules); err != nil {
			return err
		}
	}
	for name, child := range props.Properties {
		if err := walkRules(&child, path.Child("properties").Key(name), at.ChildPropertyContext(&child, name), rules); err != nil {
			return err
		}
	}
	if props.Items != nil && props.Items.Schema != nil {
		child := props.Items.Schema
		if err := walkRules(child, path.Child("items"), at.ChildItemsContext(child), rules); err != nil {
			return err
		}
	}
	return nil
}

func leastCost(env *cel.Env, text string, info *validation.CELTypeInfo) (uint64, error) {
	ast, issues := env.Compile(text)
	if issues != nil {
		return 0, issues.Err()
	}
	cost, err := env.EstimateCost(ast, estimatorOf(info.DeclType))
	return cost.Min, err
}

func saturatingProduct(a, b uint64) uint64 {
	if a == 0 || b == 0 {
		return 0
	}
	if product := a * b; product/b == a {
		return product
	}
	return ^uint64(0)
}

// wantEvaluation is the verdict about an object. Rules holds what the rules
// alone say where other errors keep them from being asked.
type wantEvaluation struct {
	Errors   []failure `json:"errors"`
	Rules    []failure `json:"rules,omitempty"`
	Warnings []string  `json:"warnings,omitempty"`
	// Cost is what the rules used of the budget; absent when they ran out of it.
	Cost  *int64  `json:"cost,omitempty"`
	Costs []int64 `json:"costs,omitempty"`
}

type recorder struct{ list *[]string }

func (r recorder) AddWarning(_, text string) { *r.list = append(*r.list, mask(text)) }

func recordEvaluation(schemaText, objectText, oldText json.RawMessage) (*wantEvaluation, error) {
	props, err := readProps(schemaText)
	if err != nil {
		return nil, err
	}
	structural, err := readStructural(schemaText)
	if err != nil {
		return nil, err
	}
	validator, _, err := apiservervalidation.NewSchemaValidatorForVersion(props, release)
	if err != nil {
		return nil, err
	}
	strategy := customresource.NewStrategy(nil, false, schema.GroupVersionKind{Group: apiGroup, Version: "v1", Kind: apiKind},
		validator, nil, structural, nil, nil, nil)
	rules := schemacel.NewValidator(structural, true, celconfig.PerCallLimit)
	object, err := readObject(objectText)
	if err != nil {
		return nil, err
	}
	oldObject, err := readObject(oldText)
	if err != nil {
		return nil, err
	}
	want := &wantEvaluation{}
	seen := map[int64]bool{}
	started := time.Now()
	for run := range runs {
		if time.Since(started) > longRun*time.Duration(run+1) {
			break
		}
		var warnings []string
		ctx := warning.WithWarningRecorder(context.Background(), recorder{&warnings})
		got := failures(judge(ctx, strategy, object, oldObject))
		slices.Sort(warnings)
		if run > 0 && (!slices.Equal(got, want.Errors) || !slices.Equal(warnings, want.Warnings)) {
			return nil, fmt.Errorf("differs from run to run:\n%v\n%v", want.Errors, got)
		}
		want.Errors, want.Warnings = got, warnings

		var options []schemacel.Option
		var old any
		if oldObject != nil {
			old = oldObject.Object
			options = append(options, schemacel.WithRatcheting(
				common.NewCorrelatedObject(object.Object, old, &model.Structural{Structural: structural})))
		}
		alone, left := rules.Validate(context.Background(), nil, structural, object.Object, old, celconfig.RuntimeCELCostBudget, options...)
		if ofRules := failures(alone); !slices.Equal(ofRules, want.Errors) {
			if run > 0 && !slices.Equal(ofRules, want.Rules) {
				return nil, fmt.Errorf("differs from run to run:\n%v\n%v", want.Rules, ofRules)
			}
			want.Rules = ofRules
		}
		if left >= 0 {
			seen[celconfig.RuntimeCELCostBudget-left] = true
		}
	}
	costs := make([]int64, 0, len(seen))
	for cost := range seen {
		costs = append(costs, cost)
	}
	slices.Sort(costs)
	switch len(costs) {
	case 0:
	case 1:
		want.Cost = &costs[0]
	default:
		want.Costs = costs
	}
	return want, nil
}

func judge(ctx context.Context, strategy rest.RESTCreateUpdateStrategy, object, oldObject *unstructured.Unstructured) field.ErrorList {
	if oldObject == nil {
		return strategy.Validate(ctx, object)
	}
	return strategy.ValidateUpdate(ctx, object, oldObject)
}

func readObject(text json.RawMessage) (*unstructured.Unstructured, error) {
	if text == nil {
		return nil, nil
	}
	value, err := read(text)
	if err != nil {
		return nil, err
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("an object has to be one")
	}
	return &unstructured.Unstructured{Object: object}, nil
}
