import { isObject, type Json } from "../lib/json.ts";
import { furtherProblems, PROBLEMS_MAX, type Problem } from "../lib/problem.ts";
import { fieldTypes, unknownField, type FieldType, type FieldTypes } from "./fields.ts";

/** A place in the configuration, and the list that collects all problems. */
export interface ConfigPlace {
  /** JSON pointer (RFC 6901). */
  readonly pointer: string;
  readonly problems: Problem[];
  /** The tool that is left out when something is wrong here. */
  readonly tool?: string;
}

export function inside(place: ConfigPlace, key: string | number): ConfigPlace {
  const text = String(key);
  const step = /[~/]/.test(text) ? text.replaceAll("~", "~0").replaceAll("/", "~1") : text;
  return { ...place, pointer: `${place.pointer}/${step}` };
}

export function complain(
  { pointer, problems, tool }: ConfigPlace,
  code: string,
  message: string,
  severity: Problem["severity"] = "error",
): undefined {
  if (problems.length < PROBLEMS_MAX) {
    problems.push({ code, message, severity, ...(tool !== undefined && { tool }), pointer });
  } else if (severity === "error") {
    further.set(problems, (further.get(problems) ?? 0) + 1);
    problems[PROBLEMS_MAX] ??= {
      ...furtherProblems(1, severity),
      pointer,
      // Words the count when it is read: there may be tens of thousands of problems.
      get message() {
        return furtherProblems(further.get(problems)!, severity).message;
      },
    };
  }
}

/** The number of errors beyond `PROBLEMS_MAX`: each still leaves out its item, though it is not reported. */
const further = new WeakMap<readonly Problem[], number>();

/** Returns what `read` returns, or undefined when it reported an error. */
export function unlessWrong<T>(place: ConfigPlace, read: () => T): T | undefined {
  const { problems } = place;
  const [before, beyond] = [problems.length, further.get(problems)];
  const value = read();
  const isWrong =
    further.get(problems) !== beyond || problems.slice(before).some(({ severity }) => severity === "error");
  return isWrong ? undefined : value;
}

type Fields<Types extends Readonly<Record<string, FieldType>>> = {
  readonly [Name in keyof Types]?: FieldTypes[Types[Name]];
};

/**
 * Reads the members of an object that have the right names and types. Each of the others is a problem, and the rest is
 * still read, so that a person sees all problems at once. `what` begins a sentence: `A tool`.
 */
export function readFields<const Types extends Readonly<Record<string, FieldType>>>(
  raw: Json,
  types: Types,
  what: string,
  place: ConfigPlace,
): Fields<Types> {
  if (!isObject(raw)) {
    complain(place, "wrong-type", `${what} must be an object`);
    return {};
  }
  const fields: Record<string, Json> = {};
  for (const name of Object.keys(raw)) {
    const at = inside(place, name);
    if (!Object.hasOwn(types, name)) {
      complain(at, "unknown-field", unknownField(what, name, types));
      continue;
    }
    const value = raw[name]!;
    const type = fieldTypes[types[name]!];
    if (type.fits(value)) fields[name] = value;
    else complain(at, "wrong-type", `"${name}" must be ${type.what}`);
  }
  return fields as Fields<Types>;
}
