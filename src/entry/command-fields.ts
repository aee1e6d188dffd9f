import { isObject, type Json, type JsonObject } from "../lib/json.ts";
import { addProblem, inside, type ConfigPlace } from "./config-place.ts";

/** The fields of an entry that start a program, as clients' configurations write them. */
interface CommandFields {
  readonly command?: string;
  readonly args?: readonly Json[];
  readonly env?: JsonObject;
  readonly cwd?: string;
}

/** The launcher URI of an entry as written: its `upstream`, or that of its `command`. Undefined for a definition. */
export function writtenUpstream(raw: unknown): string | undefined {
  if (!isObject(raw)) return undefined;
  const { upstream, command } = raw;
  if (typeof upstream === "string") return upstream;
  return typeof command === "string" ? commandUri(raw) : undefined;
}

/** The launcher URI of `command`, with the problems of the other fields reported. */
export function readCommand(fields: CommandFields & { readonly command: string }, place: ConfigPlace): string {
  const { command, args = [], env = {}, cwd = "" } = fields;
  if (command === "") addProblem(inside(place, "command"), "wrong-value", '"command" must name a program');
  args.forEach((value, index) => {
    if (typeof value !== "string")
      addProblem(inside(inside(place, "args"), index), "wrong-type", 'Each of "args" must be a string');
  });
  for (const [name, value] of Object.entries(env)) {
    if (typeof value !== "string")
      addProblem(inside(inside(place, "env"), name), "wrong-type", `"${name}" in "env" must be a string`);
  }
  if (
    [command, cwd, args, Object.entries(env)]
      .flat(3)
      .some((text) => typeof text === "string" && /\p{Surrogate}/u.test(text))
  )
    addProblem(
      inside(place, "command"),
      "bad-character",
      "A program cannot receive half a surrogate pair (\\ud800 to \\udfff)",
    );
  return commandUri(fields);
}

function commandUri({ command = "", args = [], env = {}, cwd }: CommandFields): string {
  // Throws for a lone surrogate otherwise; such an entry is refused.
  const encode = (text: string): string => encodeURIComponent(text.replaceAll(/\p{Surrogate}/gu, "\ufffd"));
  const pair = (key: string, value: Json): string[] =>
    typeof value === "string" ? [`${encode(key)}=${encode(value)}`] : [];
  const pairs = [
    ...args.flatMap((value) => pair("arg", value)),
    ...(cwd === undefined ? [] : pair("cwd", cwd)),
    ...Object.entries(env).flatMap(([name, value]) => pair(`env.${name}`, value)),
  ];
  const path = encode(command).replaceAll("%2F", "/");
  return `mcp+exec://${path}${pairs.length > 0 ? `?${pairs.join("&")}` : ""}`;
}
