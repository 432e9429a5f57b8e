// Package jsonschema compiles the closed subset of JSON Schema 2020-12 in which tools declare their
// arguments and outputs, and validates values.
//
//	{"type": "object", "required": ["to", "amount"],
//	 "properties": {"to": {"type": "string", "pattern": "^[A-Z]{2}[0-9A-Z]{13,32}$"},
//	                "amount": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.01},
//	                "note": {"type": "string", "maxLength": 140, "default": ""}}}
//
// [Compile] refuses all that is not in the subset, by name, with the place and a remedy.
// [Schema.Validate] returns the first violation, [Schema.AppendDefaults] fills in defaults, and
// [Schema.Lookup] describes the values at a pointer without a value at hand.
//
// # Keywords
//
// Each has its 2020-12 meaning, except as stated here.
//
//   - type: one type, or a list of some; enum and const, of any values.
//   - minimum, maximum, exclusiveMinimum and exclusiveMaximum compare doubles. multipleOf is exact
//     on decimals: 4.35 is a multiple of 0.01.
//   - minLength and maxLength count code points. pattern is RE2 and a search: to check the whole
//     string it needs ^ and $. It has no \p and \P, nor, under (?i), a character beyond ASCII: what
//     these match depends on the tables of a toolchain.
//   - items (one schema for all elements), minItems, maxItems, uniqueItems.
//   - properties, required, dependentRequired, minProperties and maxProperties; propertyNames, with
//     pattern, lengths and enum; and additionalProperties, which is false, absent or a schema and,
//     in an open schema, also true. An object with a schema there is a map.
//   - anyOf, oneOf, and $ref with $defs. A $ref is local, # or # and a JSON Pointer to a schema,
//     and never leads back to a schema that it is in.
//   - default: see section Defaults.
//   - title, description, examples, deprecated, readOnly, writeOnly, $schema, $comment and format
//     are annotations, never checks.
//
// Boolean schemas are refused, and so are schemas that no value can meet: an empty enum, bounds
// that cross, a required name that the closed object does not have.
//
// # Closed schemas
//
// In a closed schema no object has a member that no schema describes, at any depth:
//
//   - A schema with properties is closed by them, as if it said "additionalProperties": false.
//   - A schema without properties leaves that to its $ref, anyOf and oneOf. Inside a closed one, a
//     branch such as {"required": ["to"]} adds nothing.
//   - const and enum describe the whole value.
//
// What none of these describes would be narrowed without a word, so it is refused: an object
// without named members, unless additionalProperties says false; an array without items; a schema
// that allows objects or arrays because it has no type; additionalProperties: true. The root alone
// may be an object without members. The author can describe the value, or name it by an open
// pointer, in which "*" stands for elements and for the members of a map. From there down the
// schema is an open one: an absent additionalProperties leaves the object open, and absent items
// the elements. No pointer of a policy leads below: see [Place].
//
// Since each schema closes itself, a branch cannot add members to the schema around it. A branch
// that tries is refused. So are properties that differ only by letter case, which arguments may not
// have together. The root of a closed schema has type object.
//
// # Defaults
//
// A missing member of an object that properties describe gets its default, through items,
// additionalProperties and $ref. Below anyOf or oneOf a default is refused. A default next to a
// $ref precedes the one that the $ref leads to. Members that a default omits are filled in too, and
// the result must validate. A default of the root, of elements or of the members of a map, which
// cannot be missing, has no effect. "default": null is read as no default if null is not among the
// types of the value.
//
// # Limits
//
// A schema has at most 10,000 schemas and required names, where the target of a $ref counts once
// for each $ref, nested 64 deep; a pattern at most 1 KiB; an enum at most 10,000 values. Defaults
// fill in at most 1 MiB. Validation takes time in proportion to schemas times values, plus sorting
// for uniqueItems and the time of RE2 for patterns. Validating a valid value allocates nothing,
// except for member names with escapes.
package jsonschema
