import type { Command } from "commander";
import type { CommandKit } from "../../feature.ts";

/** Registers the commands that reach upstreams. Usage errors are one JSON object on stderr, like other errors. */
export function registerUpstreamCommands(
  program: Command,
  run: CommandKit["run"],
  load: () => Promise<typeof import("./pipes.ts")>,
): void {
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
      .option("--timeout <seconds>", "timeout of one request (BERTH_UPSTREAM_CALL_MS; default: 60)")
      .option("--start-timeout <seconds>", "timeout of the start, including a first installation (default: 300)")
      .option("--ignore-schema", "use a profile even if its upstream has changed")
      .option("-v, --verbose", "log the upstream and its notifications to stderr");

  reaching(add(program, "inspect", "List the tools, resources, templates and prompts of an upstream."))
    .option("--format <format>", "text or json", "text")
    .addHelpText("after", examples(`berth inspect "${CONTEXT7}"`, `berth inspect "${FILES}" --format json`))
    .action(async (reference, options) => run((await load()).inspect(reference, options)));

  reaching(add(program, "cat", "Call a tool, read a resource, get a prompt or a list; print records as NDJSON."))
    .option("--format <format>", RECORD_FORMATS, "ndjson")
    .option("--raw", "print the whole result as the upstream returned it, on one line")
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
    reaching(add(program, name, `Like cat, but print only the ${which} records.`))
      .option("-n, --lines <number>", "number of records", "10")
      .option("--format <format>", RECORD_FORMATS, "ndjson")
      .addHelpText("after", examples(`berth ${name} -n 3 "${CONTEXT7}?list=tools"`))
      .action(async (reference, options) =>
        run(name === "head" ? (await load()).head(reference, options) : (await load()).tail(reference, options)),
      );
  }

  reaching(add(program, "put", "Call a tool once for each NDJSON record on standard input."))
    .option("--concurrency <number>", "number of simultaneous calls; results keep the order of the input", "1")
    .option("--fail-fast", "stop at the first record that fails")
    .option("--format <format>", RECORD_FORMATS, "ndjson")
    .option("--raw", "print whole results as the upstream returned them, one per line")
    .addHelpText("after", examples(`echo '{"path":"/tmp"}' | berth put "${FILES}&tool=list_directory"`))
    .action(async (reference, options) => run((await load()).put(reference, options)));

  const mcp = program.command("mcp").description("Explore upstreams.");
  reaching(add(mcp, "explore", "Print everything that an upstream offers, as JSON."))
    .option("--format <format>", "text or json", "json")
    .addHelpText("after", examples(`berth mcp explore "${CONTEXT7}" > context7.json`))
    .action(async (reference, options) => run((await import("./mcp.ts")).explore(reference, options)));
  reaching(add(mcp, "tools", "Print the tools of an upstream, one per line."))
    .option("--format <format>", RECORD_FORMATS, "ndjson")
    .addHelpText("after", examples(`berth mcp tools "${CONTEXT7}" | jq -r .name`))
    .action(async (reference, options) => run((await import("./mcp.ts")).tools(reference, options)));
  reaching(add(mcp, "schema", "Print the schemas of one tool, or of all tools by name."))
    .argument("[tool]", "name of the tool")
    .addHelpText("after", examples(`berth mcp schema "${CONTEXT7}" query-docs`))
    .action(async (reference, tool, options) => run((await import("./mcp.ts")).schema(reference, tool, options)));
  reaching(add(mcp, "hash", "Print the hash of what callers depend on, and the CID of the whole contract."))
    .option(
      "--hosted",
      "hash the contract of the hosted server as seen by callers that can answer questions, as mcp lock does",
    )
    .addHelpText("after", examples(`berth mcp hash "${CONTEXT7}"`, `berth mcp hash "${CONTEXT7}" --hosted`))
    .action(async (reference, options) => run((await import("./mcp.ts")).hash(reference, options)));
  add(mcp, "lock", "Record the versions and contracts of a folder's upstreams in a lock file, for its image.")
    .option(
      "--from <folder>",
      "folder of sources (default: the working folder if it has an mcps.json, else reference_templates)",
    )
    .addHelpText("after", examples("berth mcp lock && berth boot"))
    .action(async (options) => run((await import("./mcp-lock.ts")).lock(options)));
  registerProfileCommands(program, run, add);
}

function registerProfileCommands(
  program: Command,
  run: CommandKit["run"],
  add: (parent: Command, name: string, description: string) => Command,
): void {
  const profile = program.command("profile").description("Manage profiles: upstreams saved under a name.");
  const commands = () => import("./profile.ts");
  const timed = (command: Command): Command =>
    command
      .option("--timeout <seconds>", "timeout of one request")
      .option("--start-timeout <seconds>", "timeout of the start, including a first installation")
      .option("-v, --verbose", "log the upstream and its notifications to stderr");

  add(profile, "list", "List the profiles of the project, the user and Berth.")
    .option("--type <type>", "mcp", "mcp")
    .option("--format <format>", RECORD_FORMATS, "text")
    .action(async (options) => run((await commands()).list(options)));
  add(profile, "info", "Print a profile as JSON.")
    .argument("<profile>", PROFILE)
    .action(async (reference) => run((await commands()).info(reference)));
  timed(add(profile, "create", "Save a profile from JSON on standard input, or from an upstream with --from."))
    .argument("<name>", "name of the profile")
    .option("--from <uri>", "launcher URI of the upstream to create the profile from")
    .option("--project", "save it in the project's folder .berth/profiles instead of the user's")
    .option("--replace", "replace an existing profile of this name")
    .option("--offline", "do not request the contract from the upstream")
    .addHelpText(
      "after",
      examples(`berth profile create context7 --from "${CONTEXT7}"`, "berth profile create biomcp < profile.json"),
    )
    .action(async (name, options) => run((await commands()).create(name, options)));
  timed(add(profile, "validate", "Compare a profile with its upstream; exits with 1 if calls may fail."))
    .argument("<profile>", PROFILE)
    .option("--format <format>", "text or json", "text")
    .action(async (reference, options) => run((await commands()).validate(reference, options)));
  timed(add(profile, "diff", "Show what has changed in the upstream since its profile was created."))
    .argument("<profile>", PROFILE)
    .option("--format <format>", "text or json", "text")
    .action(async (reference, options) => run((await commands()).diff(reference, options)));
  timed(add(profile, "update", "Update a profile to its upstream: show the changes, ask, run the examples, and save."))
    .argument("<profile>", PROFILE)
    .option("--yes", "do not ask for confirmation")
    .option("--no-test", "do not run the examples")
    .action(async (reference, options) => run((await commands()).update(reference, options)));
}

const QUESTIONS = [
  "",
  "Questions of the tool are asked at the terminal; without a terminal, each gets its default answer.",
  "Tools ask with the outcome envelope, which is transitional: MCP's input requests will replace it; see docs/outcomes.md.",
].join("\n");
const USAGE = 2;
const PROFILE = "@name";
const REFERENCE = "launcher URI such as mcp+npx://package@version?…, URL of an MCP server, or @profile";
const RECORD_FORMATS = "ndjson, json or text";
const CONTEXT7 = "mcp+npx://@upstash/context7-mcp@4.1.1";
const FILES = "mcp+npx://@modelcontextprotocol/server-filesystem@2026.8.31?arg=/tmp";

function examples(...lines: readonly string[]): string {
  return ["", "Examples:", ...lines.map((line) => `  ${line}`)].join("\n");
}
