import type { Command } from "commander";
import { run } from "../run.ts";

/** The commands that reach upstreams. A wrong use is reported like their other errors, as one JSON object on stderr. */
export function registerUpstreamCommands(program: Command, load: () => Promise<typeof import("./pipes.ts")>): void {
  const add = (parent: Command, name: string, description: string): Command =>
    parent
      .command(name)
      .description(description)
      .showHelpAfterError(false)
      .configureOutput({
        outputError: (text, write) => {
          const message = text.trim().replace(/^error: /, "");
          write(`${JSON.stringify({ error: { code: "usage", message } })}\n`);
        },
      })
      .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : USAGE));
  const reaching = (command: Command): Command =>
    command
      .argument("<reference>", REFERENCE)
      .option("--timeout <seconds>", "for one call, read or list (BERTH_UPSTREAM_CALL_MS, default 60 s)")
      .option("--start-timeout <seconds>", "for the start, a first installation included (default 300 s)")
      .option("--ignore-schema", "use a profile even if its server has changed")
      .option("-v, --verbose", "log to stderr what was reached, and its notifications");

  reaching(add(program, "inspect", "List what a server offers: tools, resources, templates and prompts."))
    .option("--format <format>", "text or json", "text")
    .addHelpText("after", examples(`berth inspect "${CONTEXT7}"`, `berth inspect "${FILES}" --format json`))
    .action(async (reference, options) => run((await load()).inspect(reference, options)));

  reaching(add(program, "cat", "Call a tool, read a resource, get a prompt or a list; write records as NDJSON."))
    .option("--format <format>", RECORD_FORMATS, "ndjson")
    .option("--raw", "write the whole result as the server returned it, on one line")
    .addHelpText("after", QUESTIONS)
    .addHelpText(
      "after",
      examples(
        `berth cat "${CONTEXT7}?tool=resolve-library-id&libraryName=fastapi&query=routing"`,
        `berth cat "${FILES}&tool=list_directory&path=/tmp" | jq .text`,
        `berth cat "mcp+python://./server.py?resource=note://1"`,
        `berth cat "mcp+https://example.org/mcp?list=tools&header.Authorization=Bearer%20\${TOKEN}"`,
      ),
    )
    .action(async (reference, options) => run((await load()).cat(reference, options)));

  for (const [name, which] of [
    ["head", "first"],
    ["tail", "last"],
  ] as const) {
    reaching(add(program, name, `Like cat, but the ${which} records only.`))
      .option("-n, --lines <number>", "how many records", "10")
      .option("--format <format>", RECORD_FORMATS, "ndjson")
      .addHelpText("after", examples(`berth ${name} -n 3 "${CONTEXT7}?list=tools"`))
      .action(async (reference, options) =>
        run(name === "head" ? (await load()).head(reference, options) : (await load()).tail(reference, options)),
      );
  }

  reaching(add(program, "put", "Call a tool once for each NDJSON record on standard input."))
    .option("--concurrency <number>", "calls under way at once; the order is kept", "1")
    .option("--fail-fast", "stop at the first record that fails")
    .option("--format <format>", RECORD_FORMATS, "ndjson")
    .option("--raw", "write whole results as the server returned them, one per line")
    .addHelpText("after", examples(`echo '{"path":"/tmp"}' | berth put "${FILES}&tool=list_directory"`))
    .action(async (reference, options) => run((await load()).put(reference, options)));

  const mcp = program.command("mcp").description("Explore upstreams.");
  reaching(add(mcp, "explore", "Everything that a server offers, as JSON."))
    .option("--format <format>", "text or json", "json")
    .addHelpText("after", examples(`berth mcp explore "${CONTEXT7}" > context7.json`))
    .action(async (reference, options) => run((await import("./mcp.ts")).explore(reference, options)));
  reaching(add(mcp, "tools", "The tools of a server, one per line."))
    .option("--format <format>", RECORD_FORMATS, "ndjson")
    .addHelpText("after", examples(`berth mcp tools "${CONTEXT7}" | jq -r .name`))
    .action(async (reference, options) => run((await import("./mcp.ts")).tools(reference, options)));
  reaching(add(mcp, "schema", "The schemas of a tool, or of all tools by name."))
    .argument("[tool]", "name of the tool")
    .addHelpText("after", examples(`berth mcp schema "${CONTEXT7}" query-docs`))
    .action(async (reference, tool, options) => run((await import("./mcp.ts")).schema(reference, tool, options)));
  reaching(add(mcp, "hash", "The hash of what callers rely on, and the CID of the whole contract."))
    .option(
      "--hosted",
      "hash the contract of the hosted server for callers that can answer questions, as mcp lock does",
    )
    .addHelpText("after", examples(`berth mcp hash "${CONTEXT7}"`, `berth mcp hash "${CONTEXT7}" --hosted`))
    .action(async (reference, options) => run((await import("./mcp.ts")).hash(reference, options)));
  add(mcp, "lock", "Lock the upstreams that a folder's list names, for its image: their versions and contracts.")
    .option("--from <folder>", "folder of sources (default: this one if it has an mcps.json, else reference_templates)")
    .addHelpText("after", examples("berth mcp lock && berth boot"))
    .action(async (options) => run((await import("../mcp-lock.ts")).lock(options)));
  registerProfileCommands(program, add);
}

function registerProfileCommands(
  program: Command,
  add: (parent: Command, name: string, description: string) => Command,
): void {
  const profile = program.command("profile").description("Saved ways to reach upstreams.");
  const commands = () => import("./profile.ts");
  const timed = (command: Command): Command =>
    command
      .option("--timeout <seconds>", "for one call or list")
      .option("--start-timeout <seconds>", "for the start, a first installation included")
      .option("-v, --verbose", "log to stderr what was reached, and its notifications");

  add(profile, "list", "The profiles of the project, of the user and of Berth.")
    .option("--type <type>", "mcp", "mcp")
    .option("--format <format>", RECORD_FORMATS, "text")
    .action(async (options) => run((await commands()).list(options)));
  add(profile, "info", "Everything that a profile says, as JSON.")
    .argument("<profile>", PROFILE)
    .action(async (reference) => run((await commands()).info(reference)));
  timed(add(profile, "create", "Save a profile: JSON on standard input, or made from a server by --from."))
    .argument("<name>", "its name")
    .option("--from <uri>", "launcher URI of a server to make a full profile from")
    .option("--project", "in the project's folder .berth/profiles instead of the user's")
    .option("--replace", "replace a profile of that name")
    .option("--offline", "without asking the server for its contract")
    .addHelpText(
      "after",
      examples(`berth profile create context7 --from "${CONTEXT7}"`, "berth profile create biomcp < profile.json"),
    )
    .action(async (name, options) => run((await commands()).create(name, options)));
  timed(add(profile, "validate", "Compare a profile with its server; exit code 1 when calls may fail."))
    .argument("<profile>", PROFILE)
    .option("--format <format>", "text or json", "text")
    .action(async (reference, options) => run((await commands()).validate(reference, options)));
  timed(add(profile, "diff", "What has changed in a server since its profile was made."))
    .argument("<profile>", PROFILE)
    .option("--format <format>", "text or json", "text")
    .action(async (reference, options) => run((await commands()).diff(reference, options)));
  timed(add(profile, "update", "Update a profile to its server: shows the changes, asks, tries the examples, saves."))
    .argument("<profile>", PROFILE)
    .option("--yes", "ask nothing")
    .option("--no-test", "try no examples")
    .action(async (reference, options) => run((await commands()).update(reference, options)));
}

const QUESTIONS = [
  "",
  "The tool's questions are asked at the terminal; without one, the default of a question is its answer.",
  "Tools may ask in the outcome envelope, which is transitional and will be replaced by MCP's own input requests;",
  "see docs/outcomes.md.",
].join("\n");
const USAGE = 2;
const PROFILE = "@name";
const REFERENCE = "a launcher URI such as mcp+npx://package@version?…, the URL of a server, or @profile";
const RECORD_FORMATS = "ndjson, json or text";
const CONTEXT7 = "mcp+npx://@upstash/context7-mcp@4.1.1";
const FILES = "mcp+npx://@modelcontextprotocol/server-filesystem@2026.8.31?arg=/tmp";

function examples(...lines: readonly string[]): string {
  return ["", "Examples:", ...lines.map((line) => `  ${line}`)].join("\n");
}
