import * as yaml from "js-yaml";

/** Reads YAML, and writes it. */
export function document(): { value: unknown; text: string } {
  return { value: yaml.load("greeting: hello\nname: world\n"), text: yaml.dump({ a: [1, { b: null }] }) };
}
