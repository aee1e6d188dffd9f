import { isObject, type Json } from "../lib/json.ts";

/** What stands where a value stood. */
const HIDDEN = "[hidden]";
/** Where a text was cut, there is often this. */
const CUT = "…";
/** This much of a value, and more of it, is hidden at the edge of a text that was cut in the midst of it. */
const PART_LENGTH_MIN = 6;
/** Values beyond these are forgotten, the oldest first: a server that is given new ones for ever keeps its speed. */
const VALUES_MAX = 256;
/** The same where all values together have more UTF-16 units: each is kept in all its forms, ten times as long as it is. */
const VALUES_UNITS_MAX = 512 * 1024;
/** A line of a longer value, such as a private key, is hidden by itself from this length on. */
const LINE_LENGTH_MIN = 16;
/** Lines of values that are hidden by themselves; those of the oldest values first. */
const LINES_MAX = 4_096;
/** A text is shown no further, and of a value no more texts than have as much together; in UTF-16 units. */
const SHOWN_UNITS_MAX = 32 * 1024;
/** The same for members and items; what comes after them is left out. */
const SHOWN_VALUES_MAX = 4_096;
/** The most UTF-16 units that are compared for one text: one that takes more is hidden as a whole. */
const COMPARED_UNITS_MAX = 4 * 1024 * 1024;

/**
 * Takes values out of texts that are shown or logged: each as it is, and as programs write it in JSON, URLs, base64 and
 * hex. It cannot find what a program has turned into something else. Whatever the values and the texts are, it holds
 * nobody up.
 */
export class Redactor {
  /** How each value is written, once that was needed. */
  readonly #values = new Map<string, Written | undefined>();
  #units = 0;
  #forms: Forms | undefined;

  /** Remembers a value. */
  add(value: string): void {
    if (this.#values.has(value)) return;
    this.#values.set(value, undefined);
    this.#units += value.length;
    for (const oldest of this.#values.keys()) {
      if (oldest === value || (this.#values.size <= VALUES_MAX && this.#units <= VALUES_UNITS_MAX)) break;
      this.#values.delete(oldest);
      this.#units -= oldest.length;
    }
    this.#forms = undefined;
  }

  hide(text: string): string {
    return this.#values.size === 0 ? text : this.#hide(text, fullRoom());
  }

  /** The same for each text in a value, names of members too. */
  hideIn(value: Json): Json {
    return this.#values.size === 0 ? value : this.#hideIn(value, fullRoom());
  }

  /**
   * A text that is no part of another, however long it is, without any form of a value of so many UTF-16 units or more:
   * nothing is cut, and the beginning of a value alone is none. Calls of others have their turns.
   */
  async hideWhole(text: string, lengthMin: number, takeTurns: () => Promise<void> | undefined): Promise<string> {
    if (this.#values.size === 0) return text;
    this.#forms ??= indexed(this.#values);
    return withoutWholeForms(text, this.#forms, lengthMin, takeTurns);
  }

  #hideIn(value: Json, room: Room): Json {
    if (typeof value === "string") return this.#hide(value, room);
    if (Array.isArray(value)) {
      const shown: Json[] = [];
      for (const each of value) {
        if (room.values-- <= 0) return [...shown, HIDDEN];
        shown.push(this.#hideIn(each, room));
      }
      return shown;
    }
    if (!isObject(value)) return value;
    const shown: [string, Json][] = [];
    for (const name in value) {
      if (room.values-- <= 0) {
        shown.push([HIDDEN, HIDDEN]);
        break;
      }
      shown.push([this.#hide(name, room), this.#hideIn(value[name] as Json, room)]);
    }
    return Object.fromEntries(shown);
  }

  #hide(text: string, room: Units): string {
    if (room.units <= 0) return HIDDEN;
    const shown = text.length > room.units ? `${text.slice(0, room.units)}${CUT}` : text;
    room.units -= text.length;
    this.#forms ??= indexed(this.#values);
    return withoutForms(shown, this.#forms);
  }
}

/** The units that are left. */
interface Units {
  units: number;
}

interface Room extends Units {
  values: number;
}

function fullRoom(): Room {
  return { units: SHOWN_UNITS_MAX, values: SHOWN_VALUES_MAX };
}

/** How values are written, by how they begin and by how they end. */
interface Forms {
  readonly short: readonly string[];
  readonly byBeginning: ReadonlyMap<string, readonly string[]>;
  readonly byEnd: ReadonlyMap<string, readonly string[]>;
}

interface Written {
  readonly forms: readonly string[];
  readonly lines: readonly string[];
}

/** Forms of a value are made once, however often others come to it. */
function indexed(values: Map<string, Written | undefined>): Forms {
  const written: Written[] = [];
  for (const [value, known] of values) {
    const own = known ?? { forms: formsOf(value), lines: linesOf(value) };
    if (!known) values.set(value, own);
    written.push(own);
  }
  const lines = written
    .toReversed()
    .flatMap((own) => own.lines)
    .slice(0, LINES_MAX);
  const all = new Set([...written.flatMap((own) => own.forms), ...lines]);
  const long = [...all].filter((form) => form.length >= PART_LENGTH_MIN);
  return {
    short: [...all].filter((form) => form !== "" && form.length < PART_LENGTH_MIN),
    byBeginning: grouped(long, (form) => form.slice(0, PART_LENGTH_MIN)),
    byEnd: grouped(long, (form) => form.slice(-PART_LENGTH_MIN)),
  };
}

function grouped(forms: readonly string[], seedOf: (form: string) => string): Map<string, string[]> {
  const groups = new Map<string, string[]>();
  for (const form of forms) {
    const seed = seedOf(form);
    const group = groups.get(seed);
    if (group) group.push(form);
    else groups.set(seed, [form]);
  }
  return groups;
}

/**
 * The end of each stretch to hide, by where it begins; zero where none does. A text may have been cut in the midst of a value, at its
 * beginning, at its end, and wherever it says so.
 */
function endsOfHidden(text: string, { short, byBeginning, byEnd }: Forms, work: Units): Uint32Array {
  const ends = new Uint32Array(text.length);
  const hide = (start: number, end: number): void => void (ends[start] = Math.max(ends[start]!, end));
  for (const form of short) {
    for (let at = text.indexOf(form); at >= 0; at = text.indexOf(form, at + form.length)) hide(at, at + form.length);
  }
  let [partStart, partEnd] = [0, endOfPart(text, 0)];
  for (let at = 0; at + PART_LENGTH_MIN <= text.length; at++) {
    if (at > partEnd) [partStart, partEnd] = [at, endOfPart(text, at)];
    const seed = text.slice(at, at + PART_LENGTH_MIN);
    for (const form of byBeginning.get(seed) ?? []) {
      work.units -= form.length;
      if (work.units < 0) return ends;
      if (text.startsWith(form, at)) hide(at, at + form.length);
      else if (at + PART_LENGTH_MIN <= partEnd && form.startsWith(text.slice(at, partEnd))) hide(at, partEnd);
    }
    const end = at + PART_LENGTH_MIN;
    for (const form of byEnd.get(seed) ?? []) {
      if (end > partEnd || end - partStart >= form.length) continue;
      work.units -= end - partStart;
      if (work.units < 0) return ends;
      if (form.endsWith(text.slice(partStart, end))) hide(partStart, end);
    }
  }
  return ends;
}

function endOfPart(text: string, from: number): number {
  const cut = text.indexOf(CUT, from);
  return cut < 0 ? text.length : cut;
}

function withoutForms(text: string, forms: Forms): string {
  const work = { units: COMPARED_UNITS_MAX };
  const ends = endsOfHidden(text, forms, work);
  if (work.units < 0) return HIDDEN;
  let [shown, at] = ["", 0];
  for (const [start, end] of ends.entries()) {
    if (end === 0) continue;
    if (start >= at) shown += text.slice(at, start) + HIDDEN;
    at = Math.max(at, end);
  }
  return shown + text.slice(at);
}

async function withoutWholeForms(
  text: string,
  { byBeginning }: Forms,
  lengthMin: number,
  takeTurns: () => Promise<void> | undefined,
): Promise<string> {
  let [shown, hiddenTo, compared, work] = ["", 0, 0, 0];
  for (let at = 0; at + PART_LENGTH_MIN <= text.length; at++) {
    for (const form of byBeginning.get(text.slice(at, at + PART_LENGTH_MIN)) ?? []) {
      compared += form.length;
      work += form.length;
      if (compared > COMPARED_UNITS_MAX) return HIDDEN;
      const end = at + form.length;
      if (form.length < lengthMin || end <= hiddenTo || !text.startsWith(form, at)) continue;
      if (at >= hiddenTo) shown += text.slice(hiddenTo, at) + HIDDEN;
      hiddenTo = end;
    }
    work += UNITS_OF_LOOKING;
    if (work < UNITS_AT_ONCE) continue;
    work = 0;
    await takeTurns();
  }
  return shown + text.slice(hiddenTo);
}

/** A look whether any form begins at a place takes about as long as to compare so many units. */
const UNITS_OF_LOOKING = 32;
/** About a millisecond. */
const UNITS_AT_ONCE = 256 * 1024;

function linesOf(value: string): string[] {
  return value.split(/\r?\n/).filter((line) => line.length >= LINE_LENGTH_MIN && line !== value);
}

function formsOf(value: string): string[] {
  const bytes = Buffer.from(value);
  return [
    value,
    JSON.stringify(value).slice(1, -1),
    encodeURIComponent(value),
    new URLSearchParams({ "": value }).toString().slice(1),
    bytes.toString("base64").replace(/=+$/, ""),
    bytes.toString("base64url"),
    bytes.toString("hex"),
  ];
}
