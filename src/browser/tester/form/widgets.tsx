import type { WidgetProps } from "@rjsf/utils";
import { descriptionId, errorId } from "@rjsf/utils";
import Select from "@rjsf/core/lib/components/widgets/SelectWidget.js";

/** The controls to write or choose a value with. */

const ONE_LINE_CHARS = 120;

/** A text field grows with its text; one with a format or a small limit stays one line. */
export function TextWidget(props: WidgetProps) {
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
export function SelectWidget(props: WidgetProps) {
  const { CheckboxesWidget } = props.registry.widgets;
  return props.multiple && CheckboxesWidget ? <CheckboxesWidget {...props} /> : <Select {...props} />;
}

export function CheckboxWidget({ id, value, label, schema, readonly, disabled, onChange }: WidgetProps) {
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
