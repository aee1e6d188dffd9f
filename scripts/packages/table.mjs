import { serverOf } from "./network.mjs";

/**
 * The page of documentation that says what became of each package.
 *
 * @param {readonly { name: string, version: string, bundleBytes: number }[]} results
 * @param {Readonly<Record<string, { reason: string, instead: string }>>} reasons of those that do not work
 */
export function tableOf(results, reasons) {
  const works = results.filter(({ name }) => !Object.hasOwn(reasons, name));
  const rows = works.map(
    ({ name, version, bundleBytes }) =>
      `| \`${name}\` | ${version} | ${kilobytes(bundleBytes)} | ${serverOf(name) ?? ""} |`,
  );
  const others = results.filter(({ name }) => Object.hasOwn(reasons, name));
  const whys = others.map(({ name, version }) => {
    const { reason, instead } = reasons[name];
    return `| \`${name}\` | ${version} | ${reason} | ${instead} |`;
  });
  return [
    "# Packages that were tried",
    "",
    `\`npm run packages\` imports each of these ${results.length} packages in a definition of its own (\`scripts/packages/calls\`), as its`,
    "README does, compiles and type-checks that definition, loads it in a sandboxed guest, and calls its function, which",
    "uses the package's main function. What needs the network connects, from inside of the sandbox, to a server on this",
    "machine, which the last column names: its entry would list that host and port, and nothing else. Only Postgres is the real one,",
    "the others are stand-ins that speak the protocol (`scripts/packages/servers`).",
    `${works.length} of them work. The size is that of the whole bundle, with everything that the package imports.`,
    "",
    "| package | version | bundle, KB | works with |",
    "| --- | --- | ---: | --- |",
    ...rows,
    "",
    "## Those that do not work",
    "",
    "| package | version | why | what to use instead |",
    "| --- | --- | --- | --- |",
    ...whys,
    "",
  ].join("\n");
}

/** @param {number} bytes */
export function kilobytes(bytes) {
  return Math.round(bytes / 1024);
}
