import Basics
import Foundation
import Testing

@testable import pailfs

/// A mount as its process tells of it.
private func mount(
    _ changes: [String: Any] = [:], files: [[String: Any]] = [], jobs: [[String: Any]] = []
) throws -> MountStatus {
    let activity: [String: Any] = [
        "files": files, "dirtyFiles": files.count,
        "dirtyBytes": files.reduce(0) { $0 + ($1["stagedBytes"] as? Int ?? 0) }, "openFiles": 1, "openHandles": 1,
        "backedFiles": 0, "jobs": jobs, "recoverableFiles": 0, "blockBytes": 1 << 30, "memoryBytes": 0,
        "isDiskFailing": false, "readHits": 0, "readMisses": 0, "readBytes": 0,
    ]
    let document: [String: Any] = [
        "url": "s3://bucket", "mountpoint": "/mnt/bucket", "state": "serving", "pid": 4711,
        "since": "2026-11-23T19:48:30Z",
        "cache": ["directory": "/var/cache/pailfs/bucket", "usedBytes": 5 << 30, "limitBytes": 10 << 30],
        "memory": ["usedBytes": 64 << 20, "limitBytes": 256 << 20],
        "traffic": ["sentBytes": 1 << 20, "receivedBytes": 3 << 20],
        "requests": ["get": ["requests": 12, "failures": 0, "retries": 0, "inFlight": 0]], "activity": activity,
    ]
    let data = try JSONSerialization.data(withJSONObject: document.merging(changes) { $1 })
    return try JSONDecoder().decode(MountStatus.self, from: data)
}

private func file(
    _ path: String, _ state: String, size: Int, sent: Int = 0, parts: Int = 1, error: String? = nil
) -> [String: Any] {
    var file: [String: Any] = [
        "path": path, "key": path, "state": state, "isOpen": false, "size": size, "stagedBytes": size - sent,
        "sentBytes": sent, "sentParts": 1, "partsUnderWay": 2, "parts": parts, "since": 1000,
    ]
    file["lastError"] = error
    return file
}

private func text(_ mount: MountStatus, columns: Int? = nil, utf8: Bool = true) -> [String] {
    StatusText(StatusStyle(columns: columns, isUTF8: utf8), now: 1012).lines(mount)
}

@Suite struct StatusStyleTests {
    @Test(arguments: [
        (0, 10, "░░░░░   0%"), (1, 1000, "█░░░░   0%"), (5, 10, "███░░  50%"), (999, 1000, "████░  99%"),
        (10, 10, "█████ 100%"), (12, 10, "█████ 100%"), (-1, 10, "░░░░░   0%"), (0, 0, "░░░░░   0%"),
        (Int64.max, Int64.max, "█████ 100%"),
    ])
    func barsAreFullOnlyAtTheEndAndEmptyOnlyBefore(part: Int64, total: Int64, bar: String) {
        #expect(StatusStyle(columns: 40, isUTF8: true).bar(part, of: total) == bar)
    }

    @Test func barsAreASCIIWhereTheLocaleIs() {
        #expect(StatusStyle(columns: 40, isUTF8: false).bar(2, of: 5) == "[##---]  40%")
    }

    @Test func barsGrowWithTheTerminalUpToALimit() {
        let cells = [20, 40, 80, 100, 300].map { StatusStyle(columns: $0, isUTF8: true).barCells }
        #expect(cells == [5, 5, 13, 20, 20])
        #expect(StatusStyle(isUTF8: true).barCells == 20)
    }

    @Test(arguments: [
        ([:], false), (["LANG": "de_DE.UTF-8"], true), (["LANG": "C.utf8"], true),
        (["LC_ALL": "C", "LANG": "C.UTF-8"], false),
        (["LC_ALL": "", "LC_CTYPE": "zh_CN.UTF-8", "LANG": "C"], true),
        (["LC_CTYPE": "POSIX", "LANG": "C.UTF-8"], false),
    ])
    func theLocaleIsFoundAsTheLibraryFindsIt(environment: [String: String], isUTF8: Bool) {
        #expect(StatusStyle(environment: environment).isUTF8 == isUTF8)
    }

    @Test func linesFitAndHoldNoCommandsToTheTerminal() {
        let style = StatusStyle(columns: 20, isUTF8: false)
        #expect(style.line("clear\u{1B}[2Jme") == "clear%1B[2Jme")
        #expect(style.line("two\nlines and more of them") == "two%0Alines and m...")
        #expect(StatusStyle(isUTF8: true).line(String(repeating: "x", count: 500)).count == 500)
    }
}

@Suite struct StatusTextTests {
    @Test func bigUploadsHaveBarsAndTheOthersALine() throws {
        let files =
            (1...7).map { file("big\($0)", "uploading", size: $0 << 30, sent: $0 << 29, parts: 128) }
            + [file("note", "waiting", size: 5, error: "put: HTTP 503"), file("draft", "writing", size: 10)]
        let lines = text(
            try mount(["queue": ["uploadingFiles": 7, "waitingFiles": 1, "waitingRequests": 3]], files: files))
        #expect(lines.contains("  files       9 not stored (7 uploading, 1 waiting); 1 file open"))
        let bars = lines.filter { $0.contains("big") && $0.contains("█") }
        #expect(
            bars.compactMap { $0.firstMatch(of: #/big[0-9]/#).map { String($0.output) } } == [
                "big7", "big6", "big5", "big4", "big3",
            ])
        #expect(
            bars.first == "              ██████████░░░░░░░░░░  50%  3.5GiB of 7GiB, part 1 of 128: big7, "
                + "uploading, 2 under way, for 12s")
        #expect(
            lines.contains("              512MiB of 1GiB, part 1 of 128: big1, uploading, 2 under way, for 12s"))
        #expect(lines.contains("              note: 5B, waiting, for 12s; put: HTTP 503"))
        #expect(lines.contains("              draft: 10B, changed, for 12s"))
        #expect(lines.contains("  traffic     sent 1MiB, received 3MiB; 3 requests waiting"))
    }

    @Test func filesThatAreNotNamedAreCounted() throws {
        let files = (0..<30).map { file("file\($0)", "waiting", size: 1) }
        let lines = text(try mount(files: files))
        #expect(lines.contains("              and 10 more") && !lines.contains { $0.contains("file20") })
    }

    @Test func jobsSayWhatIsStillToBeDone() throws {
        let jobs: [(job: [String: Any], line: String)] = [
            (["kind": "rename", "from": "a", "to": "b", "objects": 1], "rename of a to b"),
            (["kind": "tree", "from": "a/", "to": "b/", "objects": 2], "rename of a/ to b/ (2 objects)"),
            (["kind": "moved", "from": "a/", "objects": 2], "removal of what was renamed below a/ (2 objects)"),
            (["kind": "removals", "from": "a/", "objects": 1], "removal of what was renamed below a/ (1 object)"),
            (["kind": "removal", "from": "a", "objects": 1], "removal of a"),
            (["kind": "headers", "from": "a", "objects": 1], "new attributes of a"),
        ]
        let lines = text(try mount(jobs: jobs.map(\.job))).filter { $0.hasPrefix("  under way") }
        #expect(lines == jobs.map { "  under way   \($0.line)" })
    }

    @Test func spaceHasBars() throws {
        let lines = text(try mount(files: [file("f", "waiting", size: 1 << 30)]))
        #expect(lines.contains { $0.hasPrefix("  staged      ██░░░░░░░░░░░░░░░░░░  10%  1GiB of 10GiB ") })
        #expect(
            lines.contains {
                $0.hasPrefix("  cache       ██████████░░░░░░░░░░  50%  5GiB of 10GiB on disk, 1GiB of it")
            })
        #expect(lines.contains { $0.hasPrefix("  memory      █████░░░░░░░░░░░░░░░  25%  64MiB of 256MiB ") })
        #expect(!text(try mount()).contains { $0.contains("staged") }, "there is nothing to tell")
    }

    @Test(arguments: [30, 60, 80, 132], [true, false])
    func everyLineFits(columns: Int, utf8: Bool) throws {
        let files = [
            file(
                "照片/" + String(repeating: "很长的名字", count: 20) + "/结束.jpg", "uploading", size: 1 << 30, sent: 9, parts: 9
            ),
            file(String(repeating: "a/", count: 100) + "end", "waiting", size: 1),
        ]
        let lines = text(try mount(files: files), columns: columns, utf8: utf8)
        #expect(lines.allSatisfy { TextColumns.count($0) <= columns }, "\(lines)")
        if columns > 40 { #expect(lines.contains { $0.contains("/end: 1B") }, "a path keeps its end: \(lines)") }
        if !utf8 { #expect(!lines.joined().contains("█") && !lines.joined().contains("…")) }
    }

    @Test func whatAStoreCostsIsAnEstimateAndSaysSo() throws {
        let cost: [String: Any] = [
            "amount": 0.01234, "currency": "USD", "writeRequests": 1, "readRequests": 2, "freeRequests": 3,
            "region": "us-east-1", "month": "2025-11",
        ]
        #expect(
            text(try mount(["cost": cost])).last
                == "  cost        about 0.0123 USD at list prices, without traffic and storage (us-east-1, 2025-11)")
        #expect(!text(try mount()).contains { $0.contains("cost") })
    }

    @Test(arguments: [
        (0, "0"), (0.00001, "less than 0.0001"), (0.0001, "about 0.0001"), (0.01234, "about 0.0123"),
        (1.00005, "about 1.0001"), (1234.5, "about 1234.5000"),
    ])
    func amountsAreTold(amount: Double, text: String) {
        #expect(StatusText.amount(amount) == text)
    }

    @Test func aMountOfAnEarlierVersionIsShownWithWhatItTells() throws {
        let lines = text(try mount(["memory": NSNull(), "traffic": NSNull()]))
        #expect(lines.first == "s3://bucket on /mnt/bucket" && lines.contains("  requests    GET 12"))
        #expect(!lines.contains { $0.contains("memory") || $0.contains("traffic") })
    }

    @Test func sentBytesAndPartsFitIntoEightyColumns() throws {
        let path = String(repeating: "a/", count: 100) + "end"
        let lines = text(
            try mount(files: [file(path, "uploading", size: 7 << 30, sent: 1 << 30, parts: 896)]), columns: 80)
        #expect(lines.contains { $0.contains("1GiB of 7GiB, part 1 of 896: ") }, "\(lines)")
    }

    @Test func aMountWithoutAnAnswerIsNotCalledDead() throws {
        let lines = text(try mount(["state": "silent"]))
        #expect(lines.count == 2 && lines[1].contains("cannot be found from here"))
    }
}

@Suite struct StatusRatesTests {
    private func later(_ changes: [String: Any] = [:]) throws -> MountStatus {
        let requests = [
            "get": ["requests": 12, "failures": 0, "retries": 0, "inFlight": 0],
            "put": ["requests": 3, "failures": 0, "retries": 0, "inFlight": 0],
        ]
        let traffic = ["sentBytes": 5 << 20, "receivedBytes": 3 << 20]
        let base: [String: Any] = ["requests": requests, "traffic": traffic]
        return try mount(base.merging(changes) { $1 })
    }

    @Test func ratesAreTheDifferenceOfTwoLooks() throws {
        let rates = try #require(StatusRates(from: try mount(), to: try later(), after: .seconds(2)))
        #expect(rates.sent == Double(2 << 20) && rates.received == 0)
        #expect(rates.requests == ["put": 1.5], "who rested has none")
        let lines = StatusText(StatusStyle(isUTF8: true), now: 0).lines(try later(), rates: rates)
        #expect(lines.contains("  rates       sent 2MiB/s, received 0B/s, 1.5 requests/s"))
        #expect(lines.contains("  requests    GET 12") && lines.contains("              PUT 3, 1.5/s"))
    }

    @Test func anotherProcessHasNoRatesYet() throws {
        #expect(
            StatusRates(from: try mount(), to: try later(["since": "2026-11-23T20:00:00Z"]), after: .seconds(2)) == nil)
        #expect(StatusRates(from: try mount(), to: try later(["pid": 1]), after: .seconds(2)) == nil)
        #expect(StatusRates(from: try later(), to: try mount(), after: .seconds(2)) == nil, "it counts from zero again")
        #expect(StatusRates(from: try mount(), to: try later(), after: .zero) == nil)
        #expect(StatusRates(from: try mount(), to: try later(["traffic": NSNull()]), after: .seconds(2)) == nil)
    }
}
