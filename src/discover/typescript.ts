import { createRequire } from "node:module";

/**
 * The TypeScript compiler, exported as `#typescript` (package.json). It is loaded with `require`: to import 9 MB of
 * CommonJS, Node.js reads the file twice more to detect the kind of module and its exports, which would slow every
 * start of the compiler by half a second.
 */
export default createRequire(import.meta.url)("typescript") as unknown;
