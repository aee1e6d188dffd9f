import { BSON, MongoClient, ObjectId } from "mongodb";

/** Reads and writes BSON; there is no database to connect to. */
export async function documents(): Promise<{ id: string; value: unknown; name: string; failed: boolean }> {
  const bytes = BSON.serialize({ name: "Ada", tags: ["a"], id: new ObjectId("507f1f77bcf86cd799439011") });
  const { id, name, tags } = BSON.deserialize(bytes);
  const client = new MongoClient("mongodb://127.0.0.1:9/app", { serverSelectionTimeoutMS: 100 });
  const failed = await client.connect().then(
    () => false,
    () => true,
  );
  await client.close();
  return { id: String(id), value: { name, tags }, name: client.db("app").databaseName, failed };
}
