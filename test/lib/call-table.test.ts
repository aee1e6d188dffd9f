import assert from "node:assert/strict";
import { test } from "node:test";
import { CallTable } from "../../src/lib/call-table.ts";
import { array, assert as check, boolean, property } from "../support/fast-check.ts";

test("calls under way are found by numbers that are never given twice, however many come, last and go", () => {
  check(
    property(array(boolean(), { maxLength: 1_000 }), (comings) => {
      const table = new CallTable<{ id: number }>();
      const known = new Map<number, { id: number }>();
      let lastId = 0;
      for (const [step, comes] of comings.entries()) {
        if (comes) {
          const call = { id: 0 };
          table.add(call);
          assert.ok(call.id > lastId);
          lastId = call.id;
          known.set(call.id, call);
        } else {
          const [first] = known.values();
          const one = step % 3 === 0 ? [...known.values()].at(-1) : first;
          if (!one) continue;
          table.remove(one);
          known.delete(one.id);
          assert.equal(table.get(one.id), undefined);
        }
        assert.equal(table.size, known.size);
      }
      for (const [id, call] of known) assert.equal(table.get(id), call);
      for (const id of [0, -1, 1.5, Number.NaN, `${lastId}`]) assert.equal(table.get(id as number), undefined);
      assert.deepEqual(new Set(table.all()), new Set(known.values()));
      table.clear();
      assert.deepEqual([table.size, table.all()], [0, []]);
    }),
  );
});
