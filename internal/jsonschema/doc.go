// Package jsonschema is the closed subset of JSON Schema 2020-12 in which tools declare their arguments and outputs, compiled once.
//
//	{"type": "object", "required": ["to", "amount"],
//	 "properties": {"to": {"type": "string", "pattern": "^[A-Z]{2}[0-9A-Z]{13,32}$"},
//	                "amount": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.01},
//	                "note": {"type": "string", "maxLength": 140, "default": ""}}}
//
// [Compile] refuses whatever is not in the subset, by name, with the place and a remedy. [Schema.Validate] gives the first violation,
// [Schema.AppendDefaults] fills defaults in, and [Schema.Lookup] says what may stand at a pointer before any value is there.
//
// # Keywords
//
// Each has its 2020-12 meaning, but for what is said here.
//
//   - type: one type, or [type, "null"] in either order; enum and const, of any values.
//   - minimum, maximum, exclusiveMinimum, exclusiveMaximum compare doubles; multipleOf is exact on decimals: 4.35 is a multiple of 0.01.
//   - minLength, maxLength count code points; pattern is RE2 and a search, so a check of the whole string needs ^ and $.
//   - items (one schema for all elements), minItems, maxItems, uniqueItems.
//   - properties, required, and additionalProperties, which is false or absent.
//   - anyOf, oneOf, and $ref with $defs. A $ref is local, # or # and a JSON Pointer to a schema, and never leads back to where it stands.
//   - default: section Defaults below.
//   - title, description, examples, deprecated, readOnly, writeOnly, $schema, $comment and format are annotations, never checks.
//
// Boolean schemas are refused, and so is what no value can meet: an empty enum, bounds that cross, a required name that the closed object
// does not have.
//
// # Closed schemas
//
// In a closed schema no object has a member that is not declared, at any depth, whatever the schema leaves out:
//
//   - A schema with properties is closed by them, as if it said "additionalProperties": false.
//   - One without leaves that to its $ref, anyOf and oneOf; inside one that is closed, a branch such as {"required": ["to"]} adds nothing.
//   - One with none of these allows empty objects only, and so do the elements of an array without items. const and enum say it all.
//
// Since each schema closes itself, a branch cannot add members to the schema around it. One that tries is refused, and so are properties
// that differ by letter case only, which no arguments may hold together. The root of a closed schema has type object.
// In an open schema, for outputs, an absent additionalProperties leaves the object open.
//
// # Defaults
//
// A missing member of an object that properties describe is given its default, through items and $ref, but never below anyOf or oneOf,
// where a default is refused. The one beside a $ref wins over the one it leads to. What a default itself leaves out is filled in too, and
// it must then validate. A default of the root or of elements, which cannot be missing, has no effect.
//
// # Limits
//
// A schema has at most 10,000 schemas and required names, counting what a $ref leads to once for each $ref, nested 64 deep; a pattern
// 1 KiB, an enum 10,000 values; defaults fill in at most 1 MiB. Validation takes no more time than schemas times values, bar sorting for
// uniqueItems and what RE2 takes for a pattern, and validating a valid value allocates nothing, member names with escapes apart.
package jsonschema
