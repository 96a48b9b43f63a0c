{
  "rack": "west",
  "nodes": [{ "node": "w1" }, { "node": "w2" }, { "node": "w3" }]
}
{
  "rack": "east",
  "nodes": [{ "node": "e1" }, { "node": "e2" }, { "node": "e3" }]
}
