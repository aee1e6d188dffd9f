import { cutText } from "../lib/cut-text.ts";
import type { JsonSchema } from "../lib/json.ts";
import type { ContractChange } from "./change.ts";
import { spend } from "./compare-steps.ts";

/** The direction of values: values that callers send must be accepted; values that readers get must be as promised. */
export type Direction = "sent" | "read";

export interface Finding extends Pick<ContractChange, "effect" | "message" | "renamedTo"> {
  readonly pointer: string;
  /** `text`: only what people and models read differs. `default`: so does the meaning of calls that omit the value. */
  readonly textual?: "text" | "default";
}

/** Collects the differences between two schemas and turns them into their effect in one direction. */
export class Findings {
  readonly direction: Direction;
  readonly all: Finding[] = [];

  constructor(direction: Direction) {
    this.direction = direction;
  }

  /** Fewer values are valid. `predicate` completes the sentence "x is …". */
  narrowed(pointer: string, predicate: string): void {
    this.#limited(pointer, predicate, "sent", "calls with other values are refused");
  }

  /** More values are valid. */
  widened(pointer: string, predicate: string): void {
    this.#limited(pointer, predicate, "read", "readers get values that they could not get before");
  }

  /** A change that breaks one of the directions, with this consequence. */
  #limited(pointer: string, predicate: string, broken: Direction, consequence: string): void {
    const sentence = `${subject(pointer)} is ${predicate}`;
    if (this.direction === broken) this.add(pointer, "breaking", `${sentence}: ${consequence}.`);
    else this.add(pointer, "compatible", `${sentence}.`);
  }

  /** Other values are valid; only a person can tell which. */
  unclear(pointer: string, predicate: string): void {
    this.add(pointer, "review", `${subject(pointer)} is ${predicate}.`);
  }

  textual(pointer: string, message: string, textual: NonNullable<Finding["textual"]> = "text"): void {
    this.#push({ pointer, effect: "review", message, textual });
  }

  add(pointer: string, effect: Finding["effect"], message: string, renamedTo?: string): void {
    this.#push({ pointer, effect, message, ...(renamedTo !== undefined && { renamedTo }) });
  }

  /** A shared part of a schema is reported at each reference to it, so findings are counted as well. */
  #push(finding: Finding): void {
    const { pointer, message, renamedTo = "" } = finding;
    const textCost = Math.max(0, message.length + renamedTo.length - MESSAGE_UNITS) / 4;
    spend(STEPS_OF_FINDING + Math.max(pointer.length / 4, pointer.length - POINTER_UNITS) + textCost);
    this.all.push(finding);
  }

  /** Parts that are not compared count as breaking. */
  cut(pointer: string): void {
    const message = `${subject(pointer)} is too large to be compared further: the rest counts as breaking.`;
    this.all.push({ pointer, effect: "breaking", message });
  }

  /** True if users of the old schema notice nothing. */
  get isCompatible(): boolean {
    return this.all.every(({ effect, textual }) => effect === "compatible" || textual);
  }
}

/** The cost of a finding whose message has this length. */
const STEPS_OF_FINDING = 10;
const MESSAGE_UNITS = 160;
/** Splitting a longer pointer costs more than everything else. */
const POINTER_UNITS = 256;

/** The subject of a pointer into a schema, for people: `"fields[].name"`. Trailing keywords are left out. */
export function subject(pointer: string): string {
  const steps = pointer.split("/").slice(1);
  let name = "";
  for (let index = 0; index < steps.length; index++) {
    const step = steps[index]!;
    if (step === "properties" && index + 1 < steps.length) {
      const property = steps[++index]!.replaceAll("~1", "/").replaceAll("~0", "~");
      name += name === "" ? property : `.${property}`;
    } else if (step === "items" || step === "prefixItems") {
      name += "[]";
    } else if (step === "additionalProperties") {
      name += ".*";
    }
  }
  return name === "" ? "The value as a whole" : quote(name);
}

/** Names the difference: new, removed or changed. */
export function verb(before: unknown, after: unknown): string {
  if (before === undefined) return "new";
  return after === undefined ? "removed" : "changed";
}

/** A name, quoted for a message. */
export function quote(name: string): string {
  return `"${shorten(name)}"`;
}

/** External text, shortened for a message. */
export function shorten(text: string): string {
  return cutText(text, SHOWN_UNITS_MAX);
}

/** A value as JSON, shortened for a message; only the beginning of a long text is read. */
export function shortenJson(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(shorten(value));
  const text = JSON.stringify(value) ?? "none";
  spend(text.length >> 6);
  return shorten(text);
}

const SHOWN_UNITS_MAX = 200;

/** Two schemas under comparison. A pair of references that is already being compared is not compared again. */
export interface Walk {
  readonly before: JsonSchema;
  readonly after: JsonSchema;
  readonly under: Set<string>;
  /** False inside alternatives, where no validator fills in defaults. */
  readonly hasDefaults: boolean;
  readonly level: number;
  readonly compare: (before: unknown, after: unknown, pointer: string, findings: Findings, walk: Walk) => void;
}
