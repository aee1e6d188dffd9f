import Form from "@rjsf/core/lib/components/Form.js";
import {
  type ErrorSchema,
  ErrorSchemaBuilder,
  getDefaultFormState,
  type RJSFSchema,
  type ValidatorType,
} from "@rjsf/utils";
import { Component, type ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { templates, widgets } from "./theme.tsx";
import { fits, isSchema, type JsonSchema, type Mistake } from "./validation.ts";

export interface SchemaFormProps {
  /** The prefix of the fields' ids; no two forms of a page may share it. */
  readonly name: string;
  readonly schema: JsonSchema;
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
  /** The mistakes to show at their fields. */
  readonly mistakes: readonly Mistake[];
  /** True when texts are short, so that Enter sends the form. */
  readonly oneLine?: boolean;
}

/** The fields for a value, made from its schema. It has no buttons of its own, and belongs in a `<form>`. */
export function SchemaForm({ name, schema, value, onChange, mistakes, oneLine = false }: SchemaFormProps) {
  const shown = useMemo(() => formSchema(schema), [schema]);
  const errors = useMemo(() => errorSchema(mistakes), [mistakes]);
  return (
    <Unshowable>
      <Form
        tagName="div"
        className="schema-form"
        idPrefix={name}
        schema={shown}
        formData={value}
        formContext={{ oneLine }}
        validator={formValidator}
        templates={templates}
        widgets={widgets}
        uiSchema={UI}
        onChange={({ formData }: { formData?: unknown }) => onChange(formData)}
        extraErrors={errors}
        showErrorList={false}
        noHtml5Validate
        useFallbackUiForUnsupportedType
        experimental_defaultFormStateBehavior={DEFAULTS}
      />
    </Unshowable>
  );
}

const UI = { "ui:submitButtonOptions": { norender: true } };

/** Some schemas cannot be shown by the form library. The raw JSON beside it still works for them. */
class Unshowable extends Component<{ children: ComponentChildren }, { readonly failed: boolean }> {
  override state = { failed: false };

  override componentDidCatch(): void {
    this.setState({ failed: true });
  }

  override render(): ComponentChildren {
    if (!this.state.failed) return this.props.children;
    return <p class="notice warn">Berth cannot build a form from this schema. Write the arguments as JSON.</p>;
  }
}

/** The arguments before the person writes any: the schema's defaults and constants. */
export function initialValue(schema: JsonSchema): Record<string, unknown> {
  const shown = formSchema(schema);
  try {
    const value: unknown = getDefaultFormState(formValidator, shown, {}, shown, false, DEFAULTS);
    return withContainers(schema, isSchema(value) ? JSON.parse(JSON.stringify(value)) : {});
  } catch {
    return {};
  }
}

/** Adds required objects and lists, though empty, so that what is missing is said of their members. */
function withContainers(schema: JsonSchema, value: Record<string, unknown>): Record<string, unknown> {
  const { properties, required } = schema;
  if (!isSchema(properties) || !Array.isArray(required)) return value;
  for (const name of required.map(String)) {
    const member = properties[name];
    const given = value[name];
    if (!isSchema(member)) continue;
    if (member["type"] === "array") value[name] ??= [];
    if (member["type"] === "object") value[name] = withContainers(member, isSchema(given) ? { ...given } : {});
  }
  return value;
}

/**
 * Adapts a schema to what the form library understands best. It is only for showing: values are checked against the
 * server's own schema. Tuples become those of earlier drafts, several types a choice, names of enumerated values
 * titles, and choices without a title get one.
 */
function formSchema(schema: JsonSchema): JsonSchema {
  const { $schema: _dialect, ...rest } = schema;
  return adapted(rest);
}

const MAPS_OF_SCHEMAS = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
const LISTS_OF_SCHEMAS = ["anyOf", "oneOf", "allOf"];
const SCHEMAS = ["items", "additionalItems", "additionalProperties", "if", "then", "else", "not", "contains"];

function adapted(schema: JsonSchema): JsonSchema {
  const copy: Record<string, unknown> = { ...schema };
  for (const keyword of MAPS_OF_SCHEMAS) {
    const map = copy[keyword];
    if (isSchema(map)) {
      copy[keyword] = Object.fromEntries(Object.entries(map).map(([name, each]) => [name, ofMaybe(each)]));
    }
  }
  for (const keyword of [...LISTS_OF_SCHEMAS, "prefixItems"]) {
    const list = copy[keyword];
    if (Array.isArray(list)) copy[keyword] = list.map(ofMaybe);
  }
  for (const keyword of SCHEMAS) {
    if (isSchema(copy[keyword])) copy[keyword] = adapted(copy[keyword]);
  }
  tuple(copy);
  namedValues(copy);
  severalTypes(copy);
  chosenItems(copy);
  titledChoices(copy);
  return copy;
}

function ofMaybe(value: unknown): unknown {
  return isSchema(value) ? adapted(value) : value;
}

function tuple(schema: Record<string, unknown>): void {
  const { prefixItems, items } = schema;
  if (!Array.isArray(prefixItems)) return;
  delete schema["prefixItems"];
  schema["items"] = prefixItems;
  schema["additionalItems"] = items ?? false;
}

function namedValues(schema: Record<string, unknown>): void {
  const { enum: values, enumNames: names } = schema;
  // Values of several types are also chosen from a list, whichever type comes first.
  if (!Array.isArray(values) || !(Array.isArray(names) || Array.isArray(schema["type"]))) return;
  if (Array.isArray(schema["type"])) schema["type"] = "string";
  delete schema["enum"];
  delete schema["enumNames"];
  schema["oneOf"] = values.map((value, index) => ({
    const: value,
    title: String(Array.isArray(names) ? names[index] : value),
  }));
}

function severalTypes(schema: Record<string, unknown>): void {
  const { type } = schema;
  if (!Array.isArray(type) || type.filter((each) => each !== "null").length < 2 || schema["anyOf"]) return;
  delete schema["type"];
  schema["anyOf"] = type.map((each) => ({ type: each, title: String(each) }));
}

/** Shows a list of values to choose from as check boxes, each of which can be chosen once. */
function chosenItems(schema: Record<string, unknown>): void {
  const { type, items } = schema;
  if (type !== "array" || !isSchema(items)) return;
  const choices = items["anyOf"] ?? items["oneOf"];
  const isChoice = Array.isArray(choices) && choices.every((choice) => isSchema(choice) && "const" in choice);
  if (isChoice) schema["items"] = { type: "string", ...items };
  if (isChoice || Array.isArray(items["enum"])) schema["uniqueItems"] = true;
}

function titledChoices(schema: Record<string, unknown>): void {
  for (const keyword of ["anyOf", "oneOf"]) {
    const choices = schema[keyword];
    if (!Array.isArray(choices)) continue;
    schema[keyword] = choices.map((choice: unknown) => {
      if (!isSchema(choice) || choice["title"] !== undefined) return choice;
      return Object.assign({ title: titleOf(choice) }, choice);
    });
  }
}

function titleOf(schema: JsonSchema): string {
  const { const: value, enum: values, type, $ref, items, properties } = schema;
  if (value !== undefined) return typeof value === "string" ? value : JSON.stringify(value);
  if (Array.isArray(values)) return values.join(" | ");
  if (typeof $ref === "string") return $ref.split("/").pop() ?? $ref;
  if (type === "array" && isSchema(items)) return `list of ${titleOf(items)}`;
  if (isSchema(properties)) return objectTitle(properties);
  return typeof type === "string" ? type : "any value";
}

/** Tells the objects of a union apart by members with a single value, otherwise by their member names. */
function objectTitle(properties: JsonSchema): string {
  const fixed = Object.entries(properties).find(([, each]) => isSchema(each) && each["const"] !== undefined);
  if (fixed) return `${fixed[0]}: ${String((fixed[1] as JsonSchema)["const"])}`;
  return `{ ${Object.keys(properties).join(", ")} }`;
}

/** Fills in only what the schema says: nothing is sent that neither the schema nor the person gave. */
const DEFAULTS = {
  arrayMinItems: { populate: "requiredOnly" },
  constAsDefaults: "skipOneOf",
  emptyObjectFields: "skipEmptyDefaults",
} as const;

/**
 * The part of a validator that the form library needs: which choice a value fits. The mistakes that it shows come from
 * outside, since they are found with the server's own schema and not with the one that is shown.
 */
const formValidator: ValidatorType = {
  isValid: (part: RJSFSchema, value: unknown, root: RJSFSchema) => fits(part, value, root),
  validateFormData: () => ({ errors: [], errorSchema: {} }),
  rawValidation: () => ({}),
};

function errorSchema(mistakes: readonly Mistake[]): ErrorSchema {
  const builder = new ErrorSchemaBuilder();
  for (const { path, message } of mistakes) builder.addErrors(message, [...path]);
  return builder.ErrorSchema;
}
