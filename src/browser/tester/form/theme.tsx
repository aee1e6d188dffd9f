import type { IconButtonProps, TemplatesType } from "@rjsf/utils";
import { DescriptionFieldTemplate, FieldErrorTemplate, FieldTemplate, WrapIfAdditionalTemplate } from "./field.tsx";
import {
  ArrayFieldItemTemplate,
  ArrayFieldTemplate,
  MultiSchemaFieldTemplate,
  ObjectFieldTemplate,
} from "./groups.tsx";
import { CheckboxWidget, SelectWidget, TextWidget } from "./widgets.tsx";

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
