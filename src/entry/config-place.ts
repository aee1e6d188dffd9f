import { isObject, type Json } from "../lib/json.ts";
import { furtherProblems, PROBLEMS_MAX, type Problem } from "../lib/problem.ts";
import { fieldTypes, unknownField, type FieldType, type FieldTypes } from "./fields.ts";

/** A position in the configuration, and the list that collects all problems. */
export interface ConfigPlace {
  /** JSON pointer (RFC 6901). */
  readonly pointer: string;
  readonly problems: Problem[];
  /** The tool that is left out if something is wrong here. */
  readonly tool?: string;
}

export function inside(place: ConfigPlace, key: string | number): ConfigPlace {
  const text = String(key);
  const step = /[~/]/.test(text) ? text.replaceAll("~", "~0").replaceAll("/", "~1") : text;
  return { ...place, pointer: `${place.pointer}/${step}` };
}

export function addProblem(
  { pointer, problems, tool }: ConfigPlace,
  code: string,
  message: string,
  severity: Problem["severity"] = "error",
): undefined {
  if (problems.length < PROBLEMS_MAX) {
    problems.push({ code, message, severity, ...(tool !== undefined && { tool }), pointer });
  } else if (severity === "error") {
    excessErrors.set(problems, (excessErrors.get(problems) ?? 0) + 1);
    problems[PROBLEMS_MAX] ??= {
      ...furtherProblems(1, severity),
      pointer,
      // The message is composed when it is read: there may be tens of thousands of problems.
      get message() {
        return furtherProblems(excessErrors.get(problems)!, severity).message;
      },
    };
  }
}

/** The number of errors beyond `PROBLEMS_MAX`: each still leaves out its item, although it is not reported. */
const excessErrors = new WeakMap<readonly Problem[], number>();

/** Returns the result of `read`, or undefined if it reported an error. */
export function readIfValid<T>(place: ConfigPlace, read: () => T): T | undefined {
  const { problems } = place;
  const [countBefore, excessBefore] = [problems.length, excessErrors.get(problems)];
  const value = read();
  const hasErrors =
    excessErrors.get(problems) !== excessBefore ||
    problems.slice(countBefore).some(({ severity }) => severity === "error");
  return hasErrors ? undefined : value;
}

type Fields<Types extends Readonly<Record<string, FieldType>>> = {
  readonly [Name in keyof Types]?: FieldTypes[Types[Name]];
};

/** Reads the valid members of an object, and reports all others. `subject` begins a sentence: `A tool`. */
export function readFields<const Types extends Readonly<Record<string, FieldType>>>(
  raw: Json,
  types: Types,
  subject: string,
  place: ConfigPlace,
): Fields<Types> {
  if (!isObject(raw)) {
    addProblem(place, "wrong-type", `${subject} must be an object`);
    return {};
  }
  const fields: Record<string, Json> = {};
  for (const name of Object.keys(raw)) {
    const at = inside(place, name);
    if (!Object.hasOwn(types, name)) {
      addProblem(at, "unknown-field", unknownField(subject, name, types));
      continue;
    }
    const value = raw[name]!;
    const type = fieldTypes[types[name]!];
    if (type.fits(value)) fields[name] = value;
    else addProblem(at, "wrong-type", `"${name}" must be ${type.label}`);
  }
  return fields as Fields<Types>;
}
