import type { ContractChange } from "./change.ts";
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
    spend(STEPS_OF_FINDING + Math.max(pointer.length / 4, pointer.length - POINTER_UNITS));
    this.all.push({ pointer, effect: "review", message, textual: true });
  }

  add(pointer: string, effect: Finding["effect"], message: string, renamedTo?: string): void {
    spend(STEPS_OF_FINDING + Math.max(pointer.length / 4, pointer.length - POINTER_UNITS));
    this.all.push({ pointer, effect, message, ...(renamedTo !== undefined && { renamedTo }) });
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

const STEPS_OF_FINDING = 10;
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
  return name === "" ? "The value as a whole" : `"${name}"`;
}
