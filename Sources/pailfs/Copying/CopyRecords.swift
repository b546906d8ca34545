import Basics

/// One line of a copy's journal. `item` is the key or path of the copy.
enum CopyRecord: Sendable, Hashable {
    /// A process has begun to write, in this boot of the machine.
    case process(boot: String)
    /// An upload was begun; `source` identifies the bytes that it sends.
    case upload(item: ByteString, id: String, partSize: Int64, source: String)
    /// A download was begun into a file of this name beside the destination.
    case partial(item: ByteString, file: String, source: String)
    /// The file of the download has these bytes.
    case range(item: ByteString, ByteRange)
    /// The upload or download was completed or aborted.
    case ended(item: ByteString)
    /// The item was copied; `result` identifies the copy.
    case done(item: ByteString, source: String, result: String)

    /// The line, with the line break. The dot at its end shows that nothing is missing.
    var line: [UInt8] {
        let fields: [String] =
            switch self {
            case .process(let boot): ["process", Self.text(boot)]
            case .upload(let item, let id, let partSize, let source):
                ["upload", Self.text(item), Self.text(id), "\(partSize)", Self.text(source)]
            case .partial(let item, let file, let source):
                ["partial", Self.text(item), Self.text(file), Self.text(source)]
            case .range(let item, let range): ["range", Self.text(item), "\(range.lowerBound)", "\(range.upperBound)"]
            case .ended(let item): ["ended", Self.text(item)]
            case .done(let item, let source, let result):
                ["done", Self.text(item), Self.text(source), Self.text(result)]
            }
        return Array((fields + [".\n"]).joined(separator: " ").utf8)
    }

    /// nil for a line that was not written to its end.
    init?(line: ArraySlice<UInt8>) {
        let fields = String(decoding: line, as: UTF8.self)
            .split(separator: " ", omittingEmptySubsequences: false).map(String.init)
        guard fields.count > 2, fields.last == "." else { return nil }
        let texts = fields.dropFirst().dropLast().compactMap { PercentEncoding.decode($0) }.map { ByteString($0) }
        guard texts.count == fields.count - 2 else { return nil }
        switch (fields[0], texts.count) {
        case ("process", 1): self = .process(boot: texts[0].description)
        case ("upload", 4):
            guard let size = Int64(texts[2].description), size > 0 else { return nil }
            self = .upload(
                item: texts[0], id: texts[1].description, partSize: size, source: texts[3].description)
        case ("partial", 3):
            self = .partial(item: texts[0], file: texts[1].description, source: texts[2].description)
        case ("range", 3):
            guard let start = Int64(texts[1].description), let end = Int64(texts[2].description), start >= 0,
                end > start
            else { return nil }
            self = .range(item: texts[0], start..<end)
        case ("ended", 1): self = .ended(item: texts[0])
        case ("done", 3):
            self = .done(item: texts[0], source: texts[1].description, result: texts[2].description)
        default: return nil
        }
    }

    private static func text(_ text: String) -> String { PercentEncoding.encode(text) }
    private static func text(_ bytes: ByteString) -> String { PercentEncoding.encode(bytes) }
}

/// The state of a copy that the lines of its journal describe.
struct CopyRecords: Sendable, Equatable {
    struct Upload: Sendable, Equatable {
        let id: String
        let partSize: Int64
        let source: String
    }

    struct Partial: Sendable, Equatable {
        let file: String
        let source: String
        var ranges: [ByteRange] = []
    }

    struct Done: Sendable, Equatable {
        let source: String
        let result: String
    }

    private(set) var uploads: [ByteString: Upload] = [:]
    private(set) var partials: [ByteString: Partial] = [:]
    /// The items that earlier processes have copied; of the running one there is only `hasDone`.
    private(set) var done: [ByteString: Done] = [:]
    /// Whether the running process has copied an item.
    private(set) var hasDone = false
    /// The lines so far.
    private(set) var lines = 0
    private var isOfThisBoot = false
    private var isRunning = false

    /// Whether no upload and no download is unfinished.
    var hasNoTransfers: Bool { uploads.isEmpty && partials.isEmpty }

    /// The number of `liveLines`.
    var liveCount: Int { done.count + uploads.count + partials.values.reduce(0) { $0 + 1 + $1.ranges.count } }

    /// The lines that describe the same state.
    var liveLines: [CopyRecord] {
        // An item that was copied may be under way again, and the line of its end would hide that.
        done.map { .done(item: $0, source: $1.source, result: $1.result) }
            + uploads.map { .upload(item: $0, id: $1.id, partSize: $1.partSize, source: $1.source) }
            + partials.flatMap { item, partial in
                [.partial(item: item, file: partial.file, source: partial.source)]
                    + partial.ranges.map { .range(item: item, $0) }
            }
    }

    init() {}

    init(_ bytes: [UInt8], boot: String) { add(lines: bytes[...], boot: boot) }

    /// Reads lines; damaged ones are left out. Bytes of a download count only if this boot wrote them: a power cut may have lost
    /// them.
    mutating func add(lines bytes: ArraySlice<UInt8>, boot: String) {
        for line in bytes.split(separator: UInt8(ascii: "\n")) {
            lines += 1
            // A process that died may have left a gap in front of a line.
            guard let record = CopyRecord(line: line.drop { $0 == 0 }) else { continue }
            if case .process(let other) = record { isOfThisBoot = other == boot && !boot.isEmpty }
            add(record)
        }
    }

    /// The lines from now on are of the running process and boot. The items that are done are not kept.
    mutating func startProcess() {
        (isRunning, isOfThisBoot) = (true, true)
        done = [:]
    }

    mutating func add(_ record: CopyRecord) {
        switch record {
        case .process: break
        case .upload(let item, let id, let partSize, let source):
            uploads[item] = Upload(id: id, partSize: partSize, source: source)
        case .partial(let item, let file, let source): partials[item] = Partial(file: file, source: source)
        case .range(let item, let range): if isOfThisBoot { partials[item]?.ranges.append(range) }
        case .ended(let item): (uploads[item], partials[item]) = (nil, nil)
        case .done(let item, let source, let result):
            (uploads[item], partials[item]) = (nil, nil)
            if isRunning { hasDone = true } else { done[item] = Done(source: source, result: result) }
        }
    }
}
