window.BENCHMARK_DATA = {
  "lastUpdate": 1795467444250,
  "repoUrl": "https://github.com/example/words",
  "entries": {
    "Times": [
      {
        "commit": {
          "author": {
            "email": "ann@example.org",
            "name": "Ann",
            "username": "ann"
          },
          "committer": {
            "email": "ann@example.org",
            "name": "Ann",
            "username": "ann"
          },
          "distinct": true,
          "id": "1111111111111111111111111111111111111111",
          "message": "Change words",
          "timestamp": "2026-11-21T10:00:00Z",
          "tree_id": "1111111111111111111111111111111111111111",
          "url": "https://github.com/example/words/commit/1111111111111111111111111111111111111111"
        },
        "date": 1795467438555,
        "tool": "customSmallerIsBetter",
        "benches": [
          {
            "name": "split",
            "value": 3.25,
            "range": "±0.25",
            "unit": "ms",
            "extra": "runs: 5"
          },
          {
            "name": "resident",
            "value": 100,
            "unit": "Megabytes"
          }
        ]
      },
      {
        "commit": {
          "author": {
            "email": "ann@example.org",
            "name": "Ann",
            "username": "ann"
          },
          "committer": {
            "email": "ann@example.org",
            "name": "Ann",
            "username": "ann"
          },
          "distinct": true,
          "id": "2222222222222222222222222222222222222222",
          "message": "Change words",
          "timestamp": "2026-11-22T10:00:00Z",
          "tree_id": "2222222222222222222222222222222222222222",
          "url": "https://github.com/example/words/commit/2222222222222222222222222222222222222222"
        },
        "date": 1795467439617,
        "tool": "customSmallerIsBetter",
        "benches": [
          {
            "name": "split",
            "value": 3.25,
            "range": "±0.25",
            "unit": "ms",
            "extra": "runs: 5"
          },
          {
            "name": "resident",
            "value": 100,
            "unit": "Megabytes"
          }
        ]
      }
    ],
    "Rates": [
      {
        "commit": {
          "author": {
            "email": "ann@example.org",
            "name": "Ann",
            "username": "ann"
          },
          "committer": {
            "email": "ann@example.org",
            "name": "Ann",
            "username": "ann"
          },
          "distinct": true,
          "id": "2222222222222222222222222222222222222222",
          "message": "Change words",
          "timestamp": "2026-11-22T10:00:00Z",
          "tree_id": "2222222222222222222222222222222222222222",
          "url": "https://github.com/example/words/commit/2222222222222222222222222222222222222222"
        },
        "date": 1795467440737,
        "tool": "customBiggerIsBetter",
        "benches": [
          {
            "name": "requests",
            "value": 1520.5,
            "range": "3%",
            "unit": "req/s"
          },
          {
            "name": "score",
            "value": 50,
            "unit": "Percent"
          }
        ]
      }
    ],
    "Go": [
      {
        "commit": {
          "author": {
            "email": "ann@example.org",
            "name": "Ann",
            "username": "ann"
          },
          "committer": {
            "email": "ann@example.org",
            "name": "Ann",
            "username": "ann"
          },
          "distinct": true,
          "id": "2222222222222222222222222222222222222222",
          "message": "Change words",
          "timestamp": "2026-11-22T10:00:00Z",
          "tree_id": "2222222222222222222222222222222222222222",
          "url": "https://github.com/example/words/commit/2222222222222222222222222222222222222222"
        },
        "date": 1795467442141,
        "tool": "go",
        "benches": [
          {
            "name": "BenchmarkUpper",
            "value": 73.06,
            "unit": "ns/op\t      18 B/op\t       1 allocs/op",
            "extra": "2000 times\n2 procs"
          },
          {
            "name": "BenchmarkUpper - ns/op",
            "value": 73.06,
            "unit": "ns/op",
            "extra": "2000 times\n2 procs"
          },
          {
            "name": "BenchmarkUpper - B/op",
            "value": 18,
            "unit": "B/op",
            "extra": "2000 times\n2 procs"
          },
          {
            "name": "BenchmarkUpper - allocs/op",
            "value": 1,
            "unit": "allocs/op",
            "extra": "2000 times\n2 procs"
          },
          {
            "name": "BenchmarkUpper",
            "value": 3906,
            "unit": "ns/op\t      16 B/op\t       1 allocs/op",
            "extra": "2000 times\n2 procs"
          },
          {
            "name": "BenchmarkUpper - ns/op",
            "value": 3906,
            "unit": "ns/op",
            "extra": "2000 times\n2 procs"
          },
          {
            "name": "BenchmarkUpper - B/op",
            "value": 16,
            "unit": "B/op",
            "extra": "2000 times\n2 procs"
          },
          {
            "name": "BenchmarkUpper - allocs/op",
            "value": 1,
            "unit": "allocs/op",
            "extra": "2000 times\n2 procs"
          },
          {
            "name": "BenchmarkUpper",
            "value": 84.01,
            "unit": "ns/op\t      16 B/op\t       1 allocs/op",
            "extra": "2000 times\n2 procs"
          },
          {
            "name": "BenchmarkUpper - ns/op",
            "value": 84.01,
            "unit": "ns/op",
            "extra": "2000 times\n2 procs"
          },
          {
            "name": "BenchmarkUpper - B/op",
            "value": 16,
            "unit": "B/op",
            "extra": "2000 times\n2 procs"
          },
          {
            "name": "BenchmarkUpper - allocs/op",
            "value": 1,
            "unit": "allocs/op",
            "extra": "2000 times\n2 procs"
          }
        ]
      }
    ],
    "Copies": [
      {
        "commit": {
          "author": {
            "email": "ann@example.org",
            "name": "Ann",
            "username": "ann"
          },
          "committer": {
            "email": "ann@example.org",
            "name": "Ann",
            "username": "ann"
          },
          "distinct": true,
          "id": "2222222222222222222222222222222222222222",
          "message": "Change words",
          "timestamp": "2026-11-22T10:00:00Z",
          "tree_id": "2222222222222222222222222222222222222222",
          "url": "https://github.com/example/words/commit/2222222222222222222222222222222222222222"
        },
        "date": 1795467443180,
        "tool": "googlecpp",
        "benches": [
          {
            "name": "BM_Wait/iterations:20/repeats:3/real_time",
            "value": 183.92599999970116,
            "unit": "us/iter",
            "extra": "iterations: 20\ncpu: 18.464450000000006 us\nthreads: 1"
          },
          {
            "name": "BM_Wait/iterations:20/repeats:3/real_time",
            "value": 172.80904999097402,
            "unit": "us/iter",
            "extra": "iterations: 20\ncpu: 16.44585000000001 us\nthreads: 1"
          },
          {
            "name": "BM_Wait/iterations:20/repeats:3/real_time",
            "value": 1217.8328499885538,
            "unit": "us/iter",
            "extra": "iterations: 20\ncpu: 23.183600000000023 us\nthreads: 1"
          },
          {
            "name": "BM_Wait/iterations:20/repeats:3/real_time_mean",
            "value": 524.855966659743,
            "unit": "us/iter",
            "extra": "iterations: 3\ncpu: 19.364633333333344 us\nthreads: 1"
          },
          {
            "name": "BM_Wait/iterations:20/repeats:3/real_time_median",
            "value": 183.92599999970113,
            "unit": "us/iter",
            "extra": "iterations: 3\ncpu: 18.464450000000003 us\nthreads: 1"
          },
          {
            "name": "BM_Wait/iterations:20/repeats:3/real_time_stddev",
            "value": 600.1613260328078,
            "unit": "us/iter",
            "extra": "iterations: 3\ncpu: 3.4578991151902447 us\nthreads: 1"
          },
          {
            "name": "BM_Wait/iterations:20/repeats:3/real_time_cv",
            "value": 1.143478142874737,
            "unit": "us/iter",
            "extra": "iterations: 3\ncpu: 0.17856775574665723 us\nthreads: 1"
          }
        ]
      }
    ],
    "Pytest": [
      {
        "commit": {
          "author": {
            "email": "ann@example.org",
            "name": "Ann",
            "username": "ann"
          },
          "committer": {
            "email": "ann@example.org",
            "name": "Ann",
            "username": "ann"
          },
          "distinct": true,
          "id": "2222222222222222222222222222222222222222",
          "message": "Change words",
          "timestamp": "2026-11-22T10:00:00Z",
          "tree_id": "2222222222222222222222222222222222222222",
          "url": "https://github.com/example/words/commit/2222222222222222222222222222222222222222"
        },
        "date": 1795467444128,
        "tool": "pytest",
        "benches": [
          {
            "name": "test_words.py::test_split[10]",
            "value": 2446064.2753176293,
            "unit": "iter/sec",
            "range": "stddev: 2.0778088800662625e-7",
            "extra": "mean: 408.8200012120069 nsec\nrounds: 5"
          },
          {
            "name": "test_words.py::test_split[100]",
            "value": 341842.9442057122,
            "unit": "iter/sec",
            "range": "stddev: 2.0706558322391036e-7",
            "extra": "mean: 2.925319995483733 usec\nrounds: 5"
          },
          {
            "name": "test_words.py::TestJoin::test_join",
            "value": 7837758.425337919,
            "unit": "iter/sec",
            "range": "stddev: 6.457767682552275e-9",
            "extra": "mean: 127.58749960539718 nsec\nrounds: 4"
          }
        ]
      }
    ]
  }
}