import type { Command } from "commander";
import type { CommandKit, Feature } from "../feature.ts";

/** Tools as JSON-RPC methods of their own, and `berth call`, which calls one (docs/native-calls.md). */
export const nativeFeature: Feature = {
  name: "native",
  commands,
  async open() {
    const { callNatively } = await import("./call-natively.ts");
    return { callNatively };
  },
};

const HELP = `
Pass an argument that has the name of an option as name=value: url=https://example.com.
Questions of the tool are asked at the terminal; without a terminal, each gets its default answer.
The outcome envelope, by which tools ask questions, is transitional; see docs/outcomes.md.

If Berth requires a token, set BERTH_TOKEN, or BERTH_TOKEN_FILE to a file that contains it.

Exit codes: 0 success, 1 the tool failed or needs an answer, 2 it could not be called.

Examples:
  berth call hello.greet name=Ada times=2
  berth call hello.greet '{"name":"Ada"}' --json`;

function commands(program: Command, { run }: CommandKit): void {
  program
    .command("call")
    .description("Call a tool of a running Berth and print its result.")
    .argument("<method>", "server.tool")
    .argument("[arguments...]", "name=value, --name value, or JSON (default: one JSON object on standard input)")
    .option(
      "--url <address>",
      "address of Berth (BERTH_URL; default: the folder's berth dev, or http://127.0.0.1:7420)",
    )
    .option("--json", "print its events and its exact result as NDJSON")
    .option("--answers <json>", "answers to the tool's questions, as an object by key")
    .allowUnknownOption()
    .addHelpText("after", HELP)
    .action(async (method, words, options) => run((await import("./commands/call.ts")).call(method, words, options)));
}
