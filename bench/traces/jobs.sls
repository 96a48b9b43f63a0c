{
  "am.type": "mapreduce",
  "job.start.ms": 0,
  "job.queue.name": "etl",
  "job.id": "nightly",
  "job.user": "ada",
  "job.count": 4,
  "job.tasks": [
    { "count": 6, "container.host": "/west/w1", "duration.ms": 20000, "container.priority": 20, "container.type": "map" },
    { "count": 6, "container.host": "/west/w2", "duration.ms": 24000, "container.priority": 20, "container.type": "map" },
    { "count": 6, "container.host": "/east/e1", "duration.ms": 18000, "container.priority": 20, "container.type": "map" },
    { "count": 2, "duration.ms": 30000, "container.priority": 10, "container.type": "reduce" }
  ]
}
{
  "am.type": "mapreduce",
  "job.start.ms": 15000,
  "job.end.ms": 90000,
  "job.queue.name": "adhoc",
  "job.id": "query",
  "job.user": "grace",
  "job.tasks": [
    { "container.host": "/east/e2", "container.start.ms": 16000, "container.end.ms": 41000, "container.priority": 20, "container.type": "map" },
    { "container.host": "/east/e3", "container.start.ms": 16000, "container.end.ms": 39000, "container.priority": 20, "container.type": "map" },
    { "container.start.ms": 45000, "container.end.ms": 61000, "container.priority": 10, "container.type": "reduce" }
  ]
}
