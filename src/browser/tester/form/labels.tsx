import type { FieldPathId } from "@rjsf/utils";

/** The library calls the items of a list `tags-1`. */
export function labelOf(label: string, { path }: FieldPathId): string {
  const last = path.at(-1);
  return typeof last === "number" ? `Item ${last + 1}` : label;
}

export function Label({ id, label, required }: { id: string; label: string; required?: boolean | undefined }) {
  return (
    <label for={id}>
      {label}
      {required && <Required />}
    </label>
  );
}

export function GroupLabel({ id, label, required }: { id: string; label: string; required?: boolean | undefined }) {
  return (
    <span class="label" id={`${id}__label`}>
      {label}
      {required && <Required />}
    </span>
  );
}

export function Required() {
  return <span class="required"> required</span>;
}
