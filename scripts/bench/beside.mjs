import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { machine, pinned } from "./machine.mjs";

/**
 * A process of the bench beside this one, which says when it is ready, and answers each message with one.
 *
 * @param {string} file of this folder
 * @param {string[]} args
 * @param {{ pinned?: boolean, core?: number, yields?: boolean }} [options] `pinned`: to `core`, that of the load generators
 *   unless another is given; `yields`: gives the core to any other process at once
 * @returns {Promise<{ ask: (message: unknown) => Promise<any>, tell: (message: unknown) => void, end: () => void }>}
 */
export async function startBeside(file, args, options = {}) {
  const { pinned: isPinned = true, core = machine.generatorCore, yields = false } = options;
  const path = fileURLToPath(new URL(file, import.meta.url));
  const yielding = yields && machine.generatorCore !== undefined ? ["chrt", "--idle", "0"] : [];
  const command = [...yielding, process.execPath, path, ...args];
  const [program, ...rest] = isPinned ? pinned(core, command) : command;
  const child = spawn(program, rest, { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  const ended = once(child, "exit").then(() => [{ failed: "it ended" }]);
  const answer = async () => {
    const [said] = await Promise.race([once(child, "message"), ended]);
    if (said.failed !== undefined) throw new Error(`${file}: ${said.failed}`);
    return said;
  };
  await answer();
  return {
    ask(message) {
      const answered = answer();
      child.send(message);
      return answered;
    },
    tell: (message) => void child.send(message),
    end: () => void child.kill("SIGKILL"),
  };
}
