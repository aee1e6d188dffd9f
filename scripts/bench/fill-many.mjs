import { echoModule, usualModule } from "./definitions.mjs";

/**
 * A data folder with very many servers, filled by the store's own means: a compiled definition is kept under its
 * server's name, and compiling one of a few definitions for each of 10,000 names would take ten minutes.
 */

const built = (path) => import(new URL(`../../dist/src/${path}`, import.meta.url).href);
const TENANT = "default";
/** Blocks and names of one transaction. */
const BATCH = 500;

/** @param {number} index @returns {string} */
export const serverName = (index) => (index === 0 ? "echo" : `server-${String(index).padStart(5, "0")}`);

/**
 * @param {string} dataDir
 * @param {{ servers: number, variables: number, definitions: number }} size `servers` beside `echo`; `definitions`: how many different ones they have
 * @returns {Promise<string>} the text of `mcps`
 */
export async function fillMany(dataDir, { servers, variables, definitions }) {
  const { openSqliteStore } = await built("store/sqlite/sqlite-store.js");
  const { packDefinition } = await built("image/definition.js");
  const { derivedEntries, packCompiled } = await built("image/compiled.js");
  const { compileKey } = await built("discover/key.js");
  const { compileDefinition } = await built("discover/compile.js");
  const { rawBlock } = await built("lib/cid.js");

  const texts = Array.from({ length: 1 + Math.min(definitions, servers) }, (_, index) => textOf(index));
  const made = [];
  for (const [index, text] of texts.entries()) {
    const name = serverName(index);
    const source = { entry: `${name}.ts`, files: { [`${name}.ts`]: text }, language: "typescript", server: name };
    const compiled = packCompiled(await compileDefinition("compile", source));
    made.push({ packed: packDefinition(name, { [name]: text }), compiled });
  }

  const store = await openSqliteStore({ dataDir });
  try {
    const names = Array.from({ length: 1 + servers }, (_, index) => serverName(index));
    const madeOf = (index) => made[index < made.length ? index : 1 + (index % (made.length - 1))];
    await store.change(TENANT, { by: "bench", put: made.flatMap(({ packed }) => packed.blocks) });
    await inBatches(names, (batch, start) =>
      store.putDerived(
        TENANT,
        batch.flatMap((name, offset) => {
          const { packed, compiled } = madeOf(start + offset);
          const key = compileKey(packed.cid, { language: "typescript", server: name });
          return derivedEntries(key, packed.cid, compiled);
        }),
      ),
    );
    const entries = names.map((name, index) => {
      const { packed } = madeOf(index);
      return [name, { definition: packed.cid, description: `Number ${index} of very many servers` }];
    });
    const text = `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`;
    const mcps = rawBlock(text);
    const set = [{ kind: "variable", name: "mcps", cid: mcps.cid }];
    await store.change(TENANT, { by: "bench", put: [mcps], set });
    const others = Array.from({ length: variables }, (_, index) => `variable-${String(index).padStart(5, "0")}`);
    await inBatches(others, (batch) => {
      const blocks = batch.map((name) => rawBlock(`The value of ${name}.\n`));
      const moves = batch.map((name, index) => ({ kind: "variable", name, cid: blocks[index].cid }));
      return store.change(TENANT, { by: "bench", put: blocks, set: moves });
    });
    return text;
  } finally {
    await store.close();
  }
}

/** Two tools each, as small servers have; one server is as large as real ones get. */
function textOf(index) {
  if (index === 0) return echoModule(1);
  if (index === 1) return usualModule(index);
  return (
    `/** Adds ${index} to a number. */\nexport function add_${index}(number: number): number {\n  return number + ${index};\n}\n\n` +
    `/** Repeats a text. */\nexport function repeat_${index}(text: string, times = ${index}): string {\n  return text.repeat(times);\n}\n`
  );
}

async function inBatches(items, carryOut) {
  for (let start = 0; start < items.length; start += BATCH) await carryOut(items.slice(start, start + BATCH), start);
}
