import type { Json } from "../../json.ts";
import { parseAllowedHost, type AllowedHost } from "../../network/allow-list.ts";
import { nameFault } from "../../secrets/rules.ts";
import { complain, inside, type Place } from "./place.ts";

/** What an entry gives its server of what others have not: secrets, and hosts to reach. */

/** Sorted, each once. */
export function readSecretNames(raw: readonly Json[], place: Place): string[] {
  const names = readTexts(raw, place, (name, at) => {
    const fault = nameFault(name);
    return fault === undefined ? name : complain(at, "bad-name", `Of a secret, ${fault}`);
  });
  return [...new Set(names)].sort();
}

export function readNetwork(raw: readonly Json[], place: Place): AllowedHost[] {
  return readTexts(raw, place, (text, at) => {
    const allowed = parseAllowedHost(text);
    return typeof allowed === "string" ? complain(at, "wrong-value", allowed) : allowed;
  });
}

function readTexts<Item>(
  raw: readonly Json[],
  place: Place,
  read: (text: string, at: Place) => Item | undefined,
): Item[] {
  return raw.flatMap((value, index) => {
    const at = inside(place, index);
    const item = typeof value === "string" ? read(value, at) : complain(at, "wrong-type", "It must be a text");
    return item === undefined ? [] : [item];
  });
}
