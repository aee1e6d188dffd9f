/** A line of the form of an entry: its field, or several that belong together. */
export interface FormLine {
  readonly label: string;
  readonly control: "check" | "choice" | "files" | "hold" | "names" | "numbers" | "options" | "text" | "tools";
  readonly hint?: string;
  /** Other fields that its control shows. */
  readonly covers?: readonly string[];
  /** `check`: the text next to the box. */
  readonly text?: string;
  /** `text`: more than one makes it a multi-line field. */
  readonly rows?: number;
  /** `choice`: the default has the value "". `numbers`: the members of the field. */
  readonly choices?: readonly (readonly [value: string, label: string])[];
  /** `names`: the noun for one of them. */
  readonly one?: string;
  /** `names`: the meaning of a missing list, if it differs from an empty one. */
  readonly all?: string;
}
