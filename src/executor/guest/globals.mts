import { createRequire, isBuiltin } from "node:module";
import { active, anyCall, currentCall } from "./active.mts";
import { failCall } from "./calls.mts";
import { writeLog } from "./console.mts";
import { describe } from "./errors.mts";
import { hostFetch } from "./fetch.mts";
import { patchToJson } from "./values.mts";

/** Replaces some of Node's globals for the program, and reports errors that no call caught. */
export function prepareGlobals(): void {
  patchToJson();
  globalThis.fetch = (input: unknown, init?: RequestInit) => hostFetch(anyCall(), input, init);
  globalThis.require = requireBuiltin as NodeJS.Require;
  // A forgotten promise of one call must not end the others.
  process.on("unhandledRejection", (reason) => report("a promise was rejected and nobody handled it", reason));
  process.on("uncaughtException", (error) => {
    if (!failCall(currentCall(), error)) report("an error was thrown outside of any call", error);
  });
}

/** Bundled CommonJS packages load Node's modules with `require`. */
const require = createRequire("file:///sbx/");
function requireBuiltin(name: string): unknown {
  if (isBuiltin(name)) return require(name);
  throw new Error(
    `Cannot require "${name}": a bundle contains all its own modules, and can require only those of Node.js`,
  );
}

/** Reports an error. One that occurs after its call has ended is logged without a call. */
function report(event: string, error: unknown): void {
  const { message, stack } = describe(error);
  const id = currentCall();
  writeLog(active.has(id) ? id : 0, "error", `${event}: ${stack ?? message}`);
}
