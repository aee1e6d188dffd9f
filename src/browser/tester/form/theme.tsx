import Select from "@rjsf/core/lib/components/widgets/SelectWidget.js";
import {
  ADDITIONAL_PROPERTY_FLAG,
  type ArrayFieldItemTemplateProps,
  type ArrayFieldTemplateProps,
  buttonId,
  canExpand,
  type DescriptionFieldProps,
  descriptionId,
  errorId,
  type FieldErrorProps,
  type FieldPathId,
  type FieldTemplateProps,
  type IconButtonProps,
  type MultiSchemaFieldTemplateProps,
  type ObjectFieldTemplateProps,
  type TemplatesType,
  type WidgetProps,
  type WrapIfAdditionalTemplateProps,
} from "@rjsf/utils";
import type { ComponentChildren } from "preact";

/** The look of forms: the form library's templates in the elements and classes of our own style sheet. */
export const templates: Partial<TemplatesType> = {
  FieldTemplate,
  ObjectFieldTemplate,
  ArrayFieldTemplate,
  ArrayFieldItemTemplate,
  MultiSchemaFieldTemplate,
  WrapIfAdditionalTemplate,
  DescriptionFieldTemplate,
  FieldErrorTemplate,
  ButtonTemplates: {
    SubmitButton: () => null,
    AddButton: (props) => <IconButton {...props} text="Add" />,
    CopyButton: (props) => <IconButton {...props} text="⧉" says="Copy" />,
    MoveDownButton: (props) => <IconButton {...props} text="↓" says="Move down" />,
    MoveUpButton: (props) => <IconButton {...props} text="↑" says="Move up" />,
    RemoveButton: (props) => <IconButton {...props} text="✕" says="Remove" />,
    ClearButton: (props) => <IconButton {...props} text="✕" says="Clear" />,
  },
};

export const widgets = { TextWidget, CheckboxWidget, SelectWidget };

function IconButton(props: IconButtonProps & { readonly text: string; readonly says?: string }) {
  const { text, says, id, title, disabled, onClick } = props;
  const label = title ?? says ?? text;
  return (
    <button
      type="button"
      class="small"
      {...(id !== undefined && { id })}
      disabled={disabled ?? false}
      onClick={onClick}
      {...(label !== text && { "aria-label": label, title: label })}
    >
      {text}
    </button>
  );
}

/** One field: its label, its description, and its mistakes. */

function FieldTemplate(props: FieldTemplateProps) {
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
        {labelled && !isGroup && <label for={id}>{withMark(label, required)}</label>}
        {labelled && isGroup && (
          <span class="label" id={`${id}__label`}>
            {withMark(label, required)}
          </span>
        )}
        {labelled && description}
        {children}
        {errors}
      </div>
    </WrapIfAdditionalTemplate>
  );
}

/** A member whose name the person chooses. */
function WrapIfAdditionalTemplate(props: WrapIfAdditionalTemplateProps) {
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

function DescriptionFieldTemplate({ id, description }: DescriptionFieldProps) {
  if (!description) return null;
  return (
    <div id={id} class="hint pre-line">
      {description as ComponentChildren}
    </div>
  );
}

function FieldErrorTemplate({ errors = [], fieldPathId }: FieldErrorProps) {
  if (errors.length === 0) return null;
  return (
    <ul id={errorId(fieldPathId)} class="mistakes">
      {errors.map((error, index) => (
        <li key={index}>{error as ComponentChildren}</li>
      ))}
    </ul>
  );
}

/** Fields that belong together: objects, lists, and values of several kinds. */

function ObjectFieldTemplate(props: ObjectFieldTemplateProps) {
  const { description, properties, schema, uiSchema, formData, required, registry, fieldPathId } = props;
  const title = props.title && labelOf(props.title, fieldPathId);
  const { AddButton } = registry.templates.ButtonTemplates;
  const isUnion = (schema.oneOf ?? schema.anyOf) && !schema.properties && properties.length === 0;
  if (isUnion) return null;
  const content = (
    <>
      {properties.map(({ content }) => content)}
      {canExpand(schema, uiSchema, formData) && (
        <AddButton
          id={buttonId(fieldPathId, "add")}
          onClick={props.onAddProperty}
          registry={registry}
          title={`Add a member${title ? ` to ${title}` : ""}`}
        />
      )}
    </>
  );
  // The arguments as a whole need no frame around them: the form is theirs.
  if (fieldPathId.path.length === 0) return <div class="fields">{content as ComponentChildren}</div>;
  return (
    <fieldset class="fields" id={fieldPathId.$id}>
      {title && <legend>{withMark(title, required)}</legend>}
      {description && <div class="hint pre-line">{description as ComponentChildren}</div>}
      {content as ComponentChildren}
    </fieldset>
  );
}

function ArrayFieldTemplate(props: ArrayFieldTemplateProps) {
  const { schema, items, canAdd, onAddClick, required, registry, fieldPathId, disabled, readonly } = props;
  const { AddButton } = registry.templates.ButtonTemplates;
  const title = props.title && labelOf(props.title, fieldPathId);
  return (
    <fieldset class="fields list" id={fieldPathId.$id}>
      {title && <legend>{withMark(title, required)}</legend>}
      {schema.description && <div class="hint pre-line">{schema.description}</div>}
      {items as ComponentChildren}
      {items.length === 0 && <p class="hint">No items.</p>}
      {canAdd && (
        <AddButton
          id={buttonId(fieldPathId, "add")}
          onClick={onAddClick}
          disabled={disabled || readonly}
          registry={registry}
          title={`Add an item${title ? ` to ${title}` : ""}`}
        />
      )}
    </fieldset>
  );
}

function ArrayFieldItemTemplate({ children, buttonsProps, hasToolbar, registry }: ArrayFieldItemTemplateProps) {
  const { ArrayFieldItemButtonsTemplate } = registry.templates;
  return (
    <div class="item">
      <div class="grow">{children as ComponentChildren}</div>
      {hasToolbar && (
        <div class="tools">
          <ArrayFieldItemButtonsTemplate {...buttonsProps} />
        </div>
      )}
    </div>
  );
}

function MultiSchemaFieldTemplate({ selector, optionSchemaField }: MultiSchemaFieldTemplateProps) {
  return (
    <div class="choice">
      <label>
        <span class="visually-hidden">Which kind</span>
        {selector as ComponentChildren}
      </label>
      {optionSchemaField as ComponentChildren}
    </div>
  );
}

/** The controls to write or choose a value with. */

const ONE_LINE_CHARS = 120;

/** A text field grows with its text; one with a format or a small limit stays one line. */
function TextWidget(props: WidgetProps) {
  const { schema, options, registry, id, value, required, readonly, disabled, onChange } = props;
  const { type, format, maxLength, pattern, examples } = schema;
  const isLong = type === "string" && !format && !pattern && !examples && (maxLength ?? Infinity) > ONE_LINE_CHARS;
  const { BaseInputTemplate } = registry.templates;
  if (!isLong || registry.formContext?.["oneLine"]) return <BaseInputTemplate {...props} />;
  return (
    <textarea
      id={id}
      rows={1}
      class="grows"
      value={value ?? ""}
      required={required ?? false}
      readOnly={readonly ?? false}
      disabled={disabled ?? false}
      aria-describedby={describedBy(id)}
      onInput={(event) => onChange(event.currentTarget.value === "" ? options.emptyValue : event.currentTarget.value)}
    />
  );
}

/** Uses check boxes to choose several of a list of values. */
function SelectWidget(props: WidgetProps) {
  const { CheckboxesWidget } = props.registry.widgets;
  return props.multiple && CheckboxesWidget ? <CheckboxesWidget {...props} /> : <Select {...props} />;
}

function CheckboxWidget({ id, value, label, schema, readonly, disabled, onChange }: WidgetProps) {
  return (
    <>
      <label class="box" for={id}>
        <input
          id={id}
          type="checkbox"
          checked={value === true}
          disabled={disabled || readonly || false}
          aria-describedby={describedBy(id)}
          onChange={(event) => onChange(event.currentTarget.checked)}
        />
        {label}
      </label>
      {schema.description && (
        <div id={descriptionId(id)} class="hint pre-line">
          {schema.description}
        </div>
      )}
    </>
  );
}

function describedBy(id: string): string {
  return `${errorId(id)} ${descriptionId(id)}`;
}

/** The library calls the items of a list `tags-1`. */
function labelOf(label: string, { path }: FieldPathId): string {
  const last = path.at(-1);
  return typeof last === "number" ? `Item ${last + 1}` : label;
}

/** A label, with a mark if its field is required. */
function withMark(label: string, required: boolean | undefined) {
  return (
    <>
      {label}
      {required && <span class="required"> required</span>}
    </>
  );
}
