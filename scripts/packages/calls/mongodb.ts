import { MongoClient, ObjectId } from "mongodb";

/** Inserts documents, and finds one. */
export async function documents(at: string): Promise<{ count: number; found: unknown; id: string | undefined }> {
  const client = new MongoClient(`mongodb://${at}/app`);
  const people = client.db().collection("people");
  const _id = new ObjectId("507f1f77bcf86cd799439011");
  const { insertedCount } = await people.insertMany([{ _id, name: "Ada", tags: ["a"] }, { name: "Bob" }]);
  const found = await people.findOne({ name: "Ada" });
  await client.close();
  return { count: insertedCount, found: found?.["tags"], id: found?._id.toHexString() };
}
