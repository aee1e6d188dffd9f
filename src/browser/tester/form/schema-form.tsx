import Form from "@rjsf/core/lib/components/Form.js";
import { Component, type ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { DEFAULTS } from "./defaults.ts";
import { formSchema } from "./form-schema.ts";
import { errorSchema, formValidator } from "./form-validator.ts";
import type { JsonSchema } from "./json-schema.ts";
import { templates, widgets } from "./theme.tsx";
import type { Mistake } from "./validation.ts";

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
    return <p class="notice warn">No form can be made from this schema. Write the arguments as JSON.</p>;
  }
}
