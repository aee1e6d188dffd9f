import type { Command } from "commander";
import type { CommandKit, Feature } from "../feature.ts";

/** Values that servers store between calls: `context.state`, pages, API and commands (docs/state.md). */
export const stateFeature: Feature = {
  name: "state",
  commands,
  open: async (core) => (await import("./open-state.ts")).openState(core),
};

/** `berth state list|get|set|delete`, while Berth serves or not. */
function commands(program: Command, { run, withStore, dataOption }: CommandKit): void {
  const tenantOption = ["--tenant <name>", "tenant of the state", "default"] as const;
  const state = program.command("state").description("Show and change the values that servers store between calls.");
  const load = () => import("./commands.ts");

  state
    .command("list")
    .description("List servers with state, or the keys of one server.")
    .argument("[server]")
    .option("--prefix <text>", "only keys with this prefix")
    .option(...tenantOption)
    .option(...dataOption)
    .action(async (server, options) => run((await load()).listState(withStore, server, options)));

  state
    .command("get")
    .description("Print the value of a key.")
    .argument("<server>")
    .argument("<key>")
    .option(...tenantOption)
    .option(...dataOption)
    .action(async (server, key, options) => run((await load()).getState(withStore, server, key, options)));

  state
    .command("set")
    .description("Set the value of a key, read as JSON from standard input.")
    .argument("<server>")
    .argument("<key>")
    .option("--bytes", "store the input as bytes")
    .option(...tenantOption)
    .option(...dataOption)
    .action(async (server, key, options) => run((await load()).setState(withStore, server, key, options)));

  state
    .command("delete")
    .description("Delete a key.")
    .argument("<server>")
    .argument("[key]")
    .option("--all", "delete all keys of the server")
    .option(...tenantOption)
    .option(...dataOption)
    .action(async (server, key, options) => run((await load()).deleteState(withStore, server, key, options)));
}
