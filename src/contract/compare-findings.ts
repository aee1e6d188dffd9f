import type { ContractChange } from "./change.ts";
import { cutText } from "../lib/cut-text.ts";
import { spend } from "./compare-steps.ts";

/** Which way values go: what a caller sends has to be taken, what a reader gets has to be what was promised. */
export type Direction = "sent" | "read";

export interface Finding extends Pick<ContractChange, "effect" | "message" | "renamedTo"> {
  readonly pointer: string;
  /** Only what people and models read is different. */
  readonly textual?: boolean;
}

/** Collects what differs between two schemas, and turns it into what it means in one direction. */
export class Findings {
  readonly direction: Direction;
  readonly all: Finding[] = [];

  constructor(direction: Direction) {
    this.direction = direction;
  }

  /** Fewer values are valid. `is` ends the sentence "x is …". */
  narrowed(pointer: string, is: string): void {
    const consequence = this.direction === "sent" ? ": calls with other values are refused" : "";
    this.add(
      pointer,
      this.direction === "sent" ? "breaking" : "compatible",
      `${subject(pointer)} is ${is}${consequence}.`,
    );
  }

  /** More values are valid. */
  widened(pointer: string, is: string): void {
    const consequence = this.direction === "read" ? ": readers meet values that they could not meet before" : "";
    this.add(
      pointer,
      this.direction === "read" ? "breaking" : "compatible",
      `${subject(pointer)} is ${is}${consequence}.`,
    );
  }

  /** Other values are valid, and which can only be told by a person. */
  unclear(pointer: string, is: string): void {
    this.add(pointer, "review", `${subject(pointer)} is ${is}.`);
  }

  textual(pointer: string, message: string): void {
    this.#push({ pointer, effect: "review", message, textual: true });
  }

  add(pointer: string, effect: Finding["effect"], message: string, renamedTo?: string): void {
    this.#push({ pointer, effect, message, ...(renamedTo !== undefined && { renamedTo }) });
  }

  /** What a schema holds once is told of at every place that refers to it: so what is told is counted, too. */
  #push(finding: Finding): void {
    const { pointer, message, renamedTo = "" } = finding;
    const written = Math.max(0, message.length + renamedTo.length - MESSAGE_UNITS) / 4;
    spend(STEPS_OF_FINDING + Math.max(pointer.length / 4, pointer.length - POINTER_UNITS) + written);
    this.all.push(finding);
  }

  /** Of what is not compared the worst is said. */
  cut(pointer: string): void {
    const message = `${subject(pointer)} is too large to be compared further: what of it is not compared counts as breaking.`;
    this.all.push({ pointer, effect: "breaking", message });
  }

  /** Nobody who relies on the schema before is surprised. */
  get isCompatible(): boolean {
    return this.all.every(({ effect, textual }) => effect === "compatible" || textual);
  }
}

/** With a message of this length. */
const STEPS_OF_FINDING = 10;
const MESSAGE_UNITS = 160;
/** To read the steps of a longer pointer takes longer than all else. */
const POINTER_UNITS = 256;

/** What a pointer into a schema is about, for a person: `"fields[].name"`. Keywords at its end are left out. */
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
  return name === "" ? "The value as a whole" : quoted(name);
}

/** A name as a message shows it. */
export function quoted(name: string): string {
  return `"${shown(name)}"`;
}

/** What others wrote, as far as a message shows it. */
export function shown(text: string): string {
  return cutText(text, SHOWN_UNITS_MAX);
}

/** The same of a value: of a long text nothing is read but its beginning. */
export function shownJson(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(shown(value));
  const text = JSON.stringify(value) ?? "none";
  spend(text.length >> 6);
  return shown(text);
}

const SHOWN_UNITS_MAX = 200;
