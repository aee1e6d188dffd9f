import { isObject, type Json } from "../json.ts";

/** What stands where a value stood. */
const HIDDEN = "[hidden]";
/** Where a text was cut, there is often this. */
const CUT = "…";
/** This much of a value, and more of it, is hidden at the edge of a text that was cut in the midst of it. */
const PART_LENGTH_MIN = 6;
/** The longest such part that is looked for. */
const PART_LENGTH_MAX = 8_192;
/** Values beyond these are forgotten, the oldest first: a server that is given new ones for ever keeps its speed. */
const VALUES_MAX = 256;
/** A line of a longer value, such as a private key, is hidden by itself from this length on. */
const LINE_LENGTH_MIN = 16;

/**
 * Takes values out of texts that are shown or logged: each as it is, and as programs write it in JSON, URLs, base64 and
 * hex. It cannot find what a program has turned into something else.
 */
export class Redactor {
  readonly #values = new Set<string>();
  #forms: readonly string[] = [];

  /** Remembers a value. */
  add(value: string): void {
    if (this.#values.has(value)) return;
    this.#values.add(value);
    for (const oldest of this.#values) {
      if (this.#values.size <= VALUES_MAX) break;
      this.#values.delete(oldest);
    }
    // The longest first: the shorter may be a part of it.
    this.#forms = [...new Set([...this.#values].flatMap(formsOf))].sort((one, other) => other.length - one.length);
  }

  hide(text: string): string {
    if (this.#forms.length === 0) return text;
    const whole = this.#forms.reduce((left, form) => left.replaceAll(form, HIDDEN), text);
    return whole
      .split(CUT)
      .map((part) => this.#hideEdges(part))
      .join(CUT);
  }

  /** The same for each text in a value, names of members too. */
  hideIn(value: Json): Json {
    if (this.#forms.length === 0) return value;
    if (typeof value === "string") return this.hide(value);
    if (Array.isArray(value)) return value.map((each) => this.hideIn(each));
    if (!isObject(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [this.hide(name), this.hideIn(each)]));
  }

  /** A text may have been cut in the midst of a value, at its beginning or at its end. */
  #hideEdges(text: string): string {
    let [start, end] = [0, text.length];
    for (const form of this.#forms) {
      start = Math.max(start, lengthOfEnd(form, text));
      end = Math.min(end, text.length - lengthOfBeginning(form, text));
    }
    if (start === 0 && end === text.length) return text;
    const middle = start < end ? text.slice(start, end) : "";
    return `${start > 0 ? HIDDEN : ""}${middle}${end < text.length ? HIDDEN : ""}`;
  }
}

function formsOf(value: string): string[] {
  const bytes = Buffer.from(value);
  const lines = value.split(/\r?\n/).filter((line) => line.length >= LINE_LENGTH_MIN && line !== value);
  return [
    value,
    ...lines,
    JSON.stringify(value).slice(1, -1),
    encodeURIComponent(value),
    new URLSearchParams({ "": value }).toString().slice(1),
    bytes.toString("base64").replace(/=+$/, ""),
    bytes.toString("base64url"),
    bytes.toString("hex"),
  ];
}

/** How much of the end of `form` the text begins with. */
function lengthOfEnd(form: string, text: string): number {
  const seed = form.slice(-PART_LENGTH_MIN);
  const head = text.slice(0, Math.min(form.length - 1, PART_LENGTH_MAX));
  for (let at = head.lastIndexOf(seed); at >= 0; at = at === 0 ? -1 : head.lastIndexOf(seed, at - 1)) {
    const length = at + seed.length;
    if (form.endsWith(head.slice(0, length))) return length;
  }
  return 0;
}

/** How much of the beginning of `form` the text ends with. */
function lengthOfBeginning(form: string, text: string): number {
  const seed = form.slice(0, PART_LENGTH_MIN);
  const tail = text.slice(-Math.min(form.length - 1, PART_LENGTH_MAX));
  for (let at = tail.indexOf(seed); at >= 0; at = tail.indexOf(seed, at + 1)) {
    if (form.startsWith(tail.slice(at))) return tail.length - at;
  }
  return 0;
}
