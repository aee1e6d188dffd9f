import type {
  ArrayFieldItemTemplateProps,
  ArrayFieldTemplateProps,
  MultiSchemaFieldTemplateProps,
  ObjectFieldTemplateProps,
} from "@rjsf/utils";
import { buttonId, canExpand } from "@rjsf/utils";
import type { ComponentChildren } from "preact";
import { labelOf, Required } from "./labels.tsx";

/** Fields that belong together: objects, lists, and values of several kinds. */

export function ObjectFieldTemplate(props: ObjectFieldTemplateProps) {
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
      {title && (
        <legend>
          {title}
          {required && <Required />}
        </legend>
      )}
      {description && <div class="hint pre-line">{description as ComponentChildren}</div>}
      {content as ComponentChildren}
    </fieldset>
  );
}

export function ArrayFieldTemplate(props: ArrayFieldTemplateProps) {
  const { schema, items, canAdd, onAddClick, required, registry, fieldPathId, disabled, readonly } = props;
  const { AddButton } = registry.templates.ButtonTemplates;
  const title = props.title && labelOf(props.title, fieldPathId);
  return (
    <fieldset class="fields list" id={fieldPathId.$id}>
      {title && (
        <legend>
          {title}
          {required && <Required />}
        </legend>
      )}
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

export function ArrayFieldItemTemplate({ children, buttonsProps, hasToolbar, registry }: ArrayFieldItemTemplateProps) {
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

export function MultiSchemaFieldTemplate({ selector, optionSchemaField }: MultiSchemaFieldTemplateProps) {
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
