import { isObject, type Json } from "../lib/json.ts";

/** Stands in place of a value. */
export const HIDDEN = "[hidden]";
/** Often marks the place where a text was cut. */
const CUT = "…";
/** At the edge of a cut text, a part of a value is hidden from this length on. */
const PART_LENGTH_MIN = 6;
/** The oldest values beyond these are forgotten, so that a server that is given new ones for ever keeps its speed. */
const VALUES_MAX = 256;
/** The same for the UTF-16 units of all values together: each is kept in all its forms, ten times its length. */
const VALUES_UNITS_MAX = 512 * 1024;
/** A line of a longer value, such as a private key, is hidden by itself from this length on. */
const LINE_LENGTH_MIN = 16;
/** The lines of values that are hidden by themselves; those of the oldest values are dropped first. */
const LINES_MAX = 4_096;
/** A longer text is cut, and a value shows no more texts than have as much together; in UTF-16 units. */
const SHOWN_UNITS_MAX = 32 * 1024;
/** The same for members and items; the rest is left out. */
const SHOWN_VALUES_MAX = 4_096;
/** The most UTF-16 units compared for one text: a text that needs more is hidden as a whole. */
const COMPARED_UNITS_MAX = 4 * 1024 * 1024;

/**
 * Removes values from texts that are shown or logged: each as it is, and as programs write it in JSON, URLs, base64 and
 * hex. It cannot find what a program has turned into something else. No value or text, however long, blocks others.
 */
export class Redactor {
  /** The written forms of each value; filled on first use. */
  readonly #values = new Map<string, Written | undefined>();
  #units = 0;
  #forms: Forms | undefined;

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

  /** The same for each text in a value, member names included. */
  hideIn(value: Json): Json {
    return this.#values.size === 0 ? value : this.#hideIn(value, fullRoom());
  }

  /**
   * Removes every form of a value of at least `lengthMin` UTF-16 units from a complete text of any length: nothing is
   * cut, and the beginning of a value alone does not count. Other calls get their turn.
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

/** The number of units left. */
interface Units {
  units: number;
}

interface Room extends Units {
  values: number;
}

function fullRoom(): Room {
  return { units: SHOWN_UNITS_MAX, values: SHOWN_VALUES_MAX };
}

/** The written forms of values, by their beginnings and by their ends. */
interface Forms {
  readonly short: readonly string[];
  readonly byBeginning: ReadonlyMap<string, readonly string[]>;
  readonly byEnd: ReadonlyMap<string, readonly string[]>;
}

interface Written {
  readonly forms: readonly string[];
  readonly lines: readonly string[];
}

/** The forms of a value are made once, however often other values are added. */
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
 * The end of each stretch to hide, by its beginning; zero where none begins. A text may be cut within a value: at its
 * beginning, at its end, and at each cut mark.
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

/** Looking for forms that begin at a place takes about as long as comparing this many units. */
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
