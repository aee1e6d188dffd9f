import type { Json } from "./json.ts";

/** Truncates a string and copies it, so that the rest does not stay in memory. */
export function cutText(text: string, unitsMax: number): string {
  return text.length > unitsMax ? `${Buffer.from(text.slice(0, unitsMax)).toString()}…` : text;
}

/** At least the first `unitsMax` code units of a value's JSON. A long value takes no more work than a short one. */
export function jsonPrefix(value: Json, unitsMax: number): string {
  let text = "";
  const isFull = (): boolean => text.length > unitsMax;
  const add = (part: Json): void => {
    if (typeof part === "string") text += JSON.stringify(part.slice(0, unitsMax));
    else if (part === null || typeof part !== "object") text += String(part);
    else if (Array.isArray(part)) {
      text += "[";
      for (let at = 0; at < part.length && !isFull(); at += 1) {
        if (at > 0) text += ",";
        add(part[at]!);
      }
      text += "]";
    } else {
      let separator = "{";
      for (const name in part) {
        if (isFull()) break;
        text += `${separator}${JSON.stringify(name.slice(0, unitsMax))}:`;
        separator = ",";
        add(part[name]!);
      }
      text += separator === "{" ? "{}" : "}";
    }
  };
  add(value);
  return text;
}
