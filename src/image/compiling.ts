import type { CompilerHelp } from "../discover/compiler.ts";
import type { Compiled, DefinitionSource } from "../discover/discovery.ts";
import type { Cid } from "../lib/cid.ts";
import type { Problem } from "../lib/problem.ts";

/** The generator's view of discovery, passed in so that tests can observe it. */
export interface Compiling {
  /** The definition's own files, by their path in the folder of sources. */
  gather(root: string, entry: string): Promise<{ files: Record<string, string>; problems: Problem[] }>;
  /** Two compilations with the same key have the same result. */
  key(definition: Cid, source: Pick<DefinitionSource, "language" | "server" | "packages">): string;
  /** Called only if something has to be compiled. */
  open(): Promise<ImageCompiler>;
}

export interface ImageCompiler {
  compile(source: DefinitionSource, help?: CompilerHelp): Promise<Compiled>;
  close(): Promise<void>;
}

/** Identifies the compiler: it differs exactly when another compiler's results could be different. */
export function compilerIdentity(compiling: Compiling): Record<DefinitionSource["language"], string> {
  const emptyCid = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku";
  const key = (language: DefinitionSource["language"]) => compiling.key(emptyCid, { language, server: "any" });
  return { typescript: key("typescript"), shell: key("shell") };
}
