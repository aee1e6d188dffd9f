import type {
  DescriptionFieldProps,
  FieldErrorProps,
  FieldTemplateProps,
  WrapIfAdditionalTemplateProps,
} from "@rjsf/utils";
import { ADDITIONAL_PROPERTY_FLAG, buttonId, errorId } from "@rjsf/utils";
import type { ComponentChildren } from "preact";
import { GroupLabel, Label, labelOf } from "./labels.tsx";

/** One field: its label, its description, and its mistakes. */

export function FieldTemplate(props: FieldTemplateProps) {
  const { id, children, errors, description, hidden, required, displayLabel, schema, rawErrors, registry } = props;
  const label = labelOf(props.label, props.fieldPathId);
  // There is nothing to choose if only one value is allowed.
  if (hidden || (schema.const !== undefined && required)) return <div hidden>{children}</div>;
  const choices = schema.anyOf ?? schema.oneOf;
  const isUnion = choices !== undefined && !registry.schemaUtils.isSelect(schema);
  const isBox = schema.type === "boolean" && !schema.enum && !choices;
  const isGroup = isUnion || schema.type === "array" || schema.type === "object";
  const labelled = displayLabel && !isBox;
  const group = labelled && isGroup ? { role: "group" as const, "aria-labelledby": `${id}__label` } : {};
  return (
    <WrapIfAdditionalTemplate {...props}>
      <div class={`field ${rawErrors?.length ? "wrong" : ""}`} {...group}>
        {labelled && (isGroup ? <GroupLabel {...{ id, label, required }} /> : <Label {...{ id, label, required }} />)}
        {labelled && description}
        {children}
        {errors}
      </div>
    </WrapIfAdditionalTemplate>
  );
}

/** A member whose name the person chooses. */
export function WrapIfAdditionalTemplate(props: WrapIfAdditionalTemplateProps) {
  const { id, label, schema, children, onKeyRenameBlur, onRemoveProperty, registry, disabled, readonly } = props;
  if (!(ADDITIONAL_PROPERTY_FLAG in schema)) return <>{children}</>;
  const { RemoveButton } = registry.templates.ButtonTemplates;
  return (
    <div class="item">
      <div class="field">
        <label for={`${id}-key`}>Name</label>
        <input id={`${id}-key`} type="text" defaultValue={label} onBlur={onKeyRenameBlur} />
      </div>
      <div class="grow">{children as ComponentChildren}</div>
      <div class="tools">
        <RemoveButton
          id={buttonId(id, "remove")}
          onClick={onRemoveProperty}
          disabled={disabled || readonly}
          registry={registry}
          title={`Remove ${label}`}
        />
      </div>
    </div>
  );
}

export function DescriptionFieldTemplate({ id, description }: DescriptionFieldProps) {
  if (!description) return null;
  return (
    <div id={id} class="hint pre-line">
      {description as ComponentChildren}
    </div>
  );
}

export function FieldErrorTemplate({ errors = [], fieldPathId }: FieldErrorProps) {
  if (errors.length === 0) return null;
  return (
    <ul id={errorId(fieldPathId)} class="mistakes">
      {errors.map((error, index) => (
        <li key={index}>{error as ComponentChildren}</li>
      ))}
    </ul>
  );
}
