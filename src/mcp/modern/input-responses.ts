import type { InputRequest } from "../../host/catalog/catalog.ts";
import { cutText } from "../../lib/cut-text.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";

export type AskedMethods = Readonly<Record<string, InputRequest["method"]>>;

/**
 * Reads the answers in `inputResponses`. Keys that were not asked are ignored; `asked` is undefined when the request
 * does not refer to an earlier round, and then any key counts. Throws `invalid_params` for a value that is not an
 * answer, naming the first keys, and for more than a call may ever have asked.
 */
export function readInputResponses(inputResponses: unknown, asked?: AskedMethods): JsonObject {
  if (!isObject(inputResponses)) throw new BerthError("invalid_params", '"inputResponses" must be an object');
  const keys = Object.keys(asked ?? inputResponses).filter((key) => Object.hasOwn(inputResponses, key));
  if (keys.length > RESPONSES_MAX) {
    throw new BerthError("invalid_params", `"inputResponses" has more than ${RESPONSES_MAX} keys`);
  }
  const known = keys.map((key) => [key, inputResponses[key]] as const);
  const problems = known.flatMap(([key, value]) => {
    const wanted = asked ? expected[asked[key]!] : anyAnswer;
    return wanted.matches(value) ? [] : `${JSON.stringify(cutText(key, KEY_UNITS_SHOWN))} must be ${wanted.shape}`;
  });
  if (problems.length > 0) {
    const more = problems.length > PROBLEMS_SHOWN ? `; and ${problems.length - PROBLEMS_SHOWN} more` : "";
    const first = problems.slice(0, PROBLEMS_SHOWN).join("; ");
    throw new BerthError("invalid_params", `"inputResponses": ${first}${more}`);
  }
  return Object.fromEntries(known as [string, Json][]);
}

/** The most that a call may ask in all its rounds together. */
const RESPONSES_MAX = 640;
const PROBLEMS_SHOWN = 10;
const KEY_UNITS_SHOWN = 256;

interface AnswerShape {
  readonly shape: string;
  readonly matches: (value: unknown) => boolean;
}

/** 2026-07-28 `schema.ts`: `ElicitResult`, `CreateMessageResult`, `ListRootsResult`. */
const expected: Readonly<Record<InputRequest["method"], AnswerShape>> = {
  "elicitation/create": {
    shape: '{"action": "accept" | "decline" | "cancel", "content"?: an object of plain values}',
    matches: (value) =>
      isObject(value) &&
      ["accept", "decline", "cancel"].includes(value["action"] as string) &&
      (value["content"] === undefined ||
        (isObject(value["content"]) && Object.values(value["content"]).every(isPlainValue))),
  },
  "sampling/createMessage": {
    shape: '{"role": "user" | "assistant", "content": a content block or several, "model": a text}',
    matches: (value) =>
      isObject(value) &&
      ["user", "assistant"].includes(value["role"] as string) &&
      [value["content"]].flat().every((block) => isObject(block) && typeof block["type"] === "string") &&
      typeof value["model"] === "string",
  },
  "roots/list": {
    shape: '{"roots": [{"uri": a text, "name"?: a text}, …]}',
    matches: (value) =>
      isObject(value) &&
      Array.isArray(value["roots"]) &&
      value["roots"].every((root) => isObject(root) && typeof root["uri"] === "string"),
  },
};

const anyAnswer: AnswerShape = {
  shape: "an answer to an elicitation, to a sampling request or to a request for roots",
  matches: (value) => Object.values(expected).some(({ matches }) => matches(value)),
};

function isPlainValue(value: unknown): boolean {
  if (Array.isArray(value)) return value.every((each) => typeof each === "string");
  return ["string", "number", "boolean"].includes(typeof value);
}
