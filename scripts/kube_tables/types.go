// Prints what Kubernetes' Go types and generated OpenAPI definitions say about the fields of the kinds we serve, as
// JSON: names, types, protobuf numbers, and the facts behind them. Run by scripts/make_kube_tables.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

type field struct {
	Name     string
	Number   int   `json:",omitempty"`
	Within   []int `json:",omitempty"` // numbers of the embedded messages that it is in, outermost first
	Type     string
	Required bool          `json:",omitempty"`
	Pointer  bool          `json:",omitempty"`
	Always   bool          `json:",omitempty"` // written even when it holds nothing
	Merge    bool          `json:",omitempty"`
	Retain   bool          `json:",omitempty"`
	MergeKey string        `json:",omitempty"`
	List     string        `json:",omitempty"`
	Keys     []string      `json:",omitempty"`
	Atomic   bool          `json:",omitempty"`
	Default  interface{}   `json:",omitempty"`
	Enum     []interface{} `json:",omitempty"`
}

type message struct {
	Name   string
	Atomic bool     `json:",omitempty"`
	Kinds  []string `json:",omitempty"`
	Fields []field
}

var (
	definitions map[string]common.OpenAPIDefinition
	messages    = map[string]*message{}
)

// Types whose text and wire forms are their own.
var special = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":                                             "time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":                                        "micro-time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":                                         "duration",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":                                         "fields-v1",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                                         "quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                                       "int-or-string",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":                                          "raw",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":                         "raw-json",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":       "schema-or-array",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":        "schema-or-bool",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "schema-or-strings",
}

func key(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

func friendly(t reflect.Type) string { return util.ToRESTFriendlyName(key(t)) }

func typeText(t reflect.Type, tag string) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if word, ok := special[key(t)]; ok {
		if strings.HasPrefix(word, "schema-") {
			visit(reflect.TypeOf(apiextensionsv1.JSONSchemaProps{}))
		}
		return word
	}
	switch t.Kind() {
	case reflect.Bool:
		return "bool"
	case reflect.Int32, reflect.Uint32, reflect.Uint16, reflect.Uint8, reflect.Int:
		return "int32"
	case reflect.Int64:
		return "int64"
	case reflect.Float64:
		return "double"
	case reflect.String:
		return "string"
	case reflect.Interface:
		return "any"
	case reflect.Map:
		return "{" + typeText(t.Elem(), "") + "}"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		inner := "[" + typeText(t.Elem(), "") + "]"
		// A named list that is not "rep" is a message of its own, with "items".
		if t.PkgPath() != "" && t.Elem().Kind() == reflect.String && !strings.Contains(tag, ",rep") {
			return friendly(t) + inner
		}
		return inner
	case reflect.Struct:
		visit(t)
		return friendly(t)
	}
	panic("unknown kind of type " + t.String())
}

func extension(p spec.Schema, name string) interface{} { return p.Extensions[name] }

func collect(t reflect.Type, within []int, m *message, definition spec.Schema) {
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		tags := strings.Split(f.Tag.Get("json"), ",")
		has := func(word string) bool {
			for _, tag := range tags[1:] {
				if tag == word {
					return true
				}
			}
			return false
		}
		number := 0
		proto := f.Tag.Get("protobuf")
		if parts := strings.Split(proto, ","); len(parts) > 1 {
			number, _ = strconv.Atoi(parts[1])
		}
		if tags[0] == "-" {
			continue
		}
		if f.Anonymous && tags[0] == "" {
			outer := append(append([]int{}, within...), number) // 0: not in protobuf, like kind and apiVersion
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			collect(embedded, outer, m, definition)
			continue
		}
		if tags[0] == "" {
			panic("a field without a name: " + t.String() + "." + f.Name)
		}
		out := field{Name: tags[0], Number: number, Within: within, Type: typeText(f.Type, proto)}
		for _, outer := range append(within, number) {
			if outer == 0 {
				out.Within, out.Number = nil, 0
			}
		}
		if out.Type == "time" && strings.Contains(f.Type.String(), "MicroTime") {
			out.Type = "micro-time"
		}
		out.Pointer = f.Type.Kind() == reflect.Pointer
		plain := f.Type.Kind() == reflect.Struct && !has("omitzero")
		out.Always = plain || !has("omitempty") && !has("omitzero")
		strategy := f.Tag.Get("patchStrategy")
		out.Merge = strings.Contains(strategy, "merge")
		out.Retain = strings.Contains(strategy, "retainKeys")
		out.MergeKey = f.Tag.Get("patchMergeKey")
		p, known := definition.Properties[out.Name]
		if known {
			for _, r := range definition.Required {
				out.Required = out.Required || r == out.Name
			}
			if list, ok := extension(p, "x-kubernetes-list-type").(string); ok {
				out.List = list
			}
			if keys, ok := extension(p, "x-kubernetes-list-map-keys").([]interface{}); ok {
				for _, k := range keys {
					out.Keys = append(out.Keys, k.(string))
				}
			}
			out.Atomic = extension(p, "x-kubernetes-map-type") == "atomic"
			out.Enum = p.Enum
			if p.Items != nil && p.Items.Schema != nil && len(p.Items.Schema.Enum) != 0 {
				out.Enum = p.Items.Schema.Enum
			}
			// A zero default only repeats that the field is always there, unless absence is something else.
			if value := p.Default; value != nil && (out.Pointer || !isZero(value)) {
				out.Default = value
			}
		} else if len(definition.Properties) != 0 {
			panic("not in OpenAPI: " + t.String() + "." + out.Name)
		}
		m.Fields = append(m.Fields, out)
	}
}

func isZero(v interface{}) bool {
	if m, ok := v.(map[string]interface{}); ok {
		return len(m) == 0
	}
	return reflect.ValueOf(v).IsZero()
}

func visit(t reflect.Type) {
	name := friendly(t)
	if messages[name] != nil {
		return
	}
	m := &message{Name: name, Fields: []field{}}
	messages[name] = m
	definition := definitions[key(t)].Schema
	if len(definition.Properties) == 0 {
		fmt.Fprintln(os.Stderr, "no OpenAPI definition of", key(t))
	}
	m.Atomic = extension(definition, "x-kubernetes-map-type") == "atomic"
	collect(t, nil, m, definition)
	sort.Slice(m.Fields, func(a, b int) bool { return m.Fields[a].Name < m.Fields[b].Name })
}

func main() {
	definitions = openapi.GetOpenAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef(path) })
	s := scheme.Scheme
	must(apiextensionsv1.AddToScheme(s))
	must(apiregistrationv1.AddToScheme(s))
	must(metricsv1beta1.AddToScheme(s))
	s.AddKnownTypes(schema.GroupVersion{Group: "meta.k8s.io", Version: "v1"}, &metav1.Table{}, &metav1.PartialObjectMetadata{},
		&metav1.PartialObjectMetadataList{}, &metav1.Status{}, &metav1.DeleteOptions{}, &metav1.ListOptions{}, &metav1.GetOptions{},
		&metav1.CreateOptions{}, &metav1.UpdateOptions{}, &metav1.PatchOptions{}, &metav1.APIGroup{}, &metav1.APIGroupList{},
		&metav1.APIResourceList{}, &metav1.APIVersions{})
	for _, text := range os.Args[1:] {
		gv, err := schema.ParseGroupVersion(text)
		must(err)
		for kind, t := range s.KnownTypes(gv) {
			if strings.HasSuffix(t.PkgPath(), "/runtime") {
				continue
			}
			own := gv.Group == "meta.k8s.io" || !strings.Contains(t.PkgPath(), "/meta/v1")
			if own || kind == "WatchEvent" {
				visit(t)
			}
			if own && gv.Group != "meta.k8s.io" {
				messages[friendly(t)].Kinds = append(messages[friendly(t)].Kinds, text+" "+kind)
			}
		}
	}
	out := []*message{}
	for _, m := range messages {
		sort.Strings(m.Kinds)
		out = append(out, m)
	}
	sort.Slice(out, func(a, b int) bool { return out[a].Name < out[b].Name })
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", " ")
	must(e.Encode(out))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
