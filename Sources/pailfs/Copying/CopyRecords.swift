import Basics

/// One line of a copy's journal. `item` is the name of the copy below the destination, and empty for the destination itself.
enum CopyRecord: Sendable, Hashable {
    /// A process has begun to write, in this boot of the machine.
    case process(boot: String)
    /// An upload was begun; `source` identifies the bytes that it sends.
    case upload(item: ByteString, id: String, partSize: Int64, source: String)
    /// A download was begun into a file of this name beside the destination.
    case partial(item: ByteString, file: String, source: String)
    /// The file of the download has these bytes.
    case range(item: ByteString, ByteRange)
    /// The upload or download was completed or given up.
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

/// What the lines of a copy's journal say together.
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
    private(set) var done: [ByteString: Done] = [:]
    private var isOfThisBoot = false

    /// Whether no upload and no download is unfinished.
    var hasNoTransfers: Bool { uploads.isEmpty && partials.isEmpty }

    init() {}

    /// Reads lines; damaged ones are left out. Bytes of a download count only if this boot wrote them: a power cut may have lost
    /// them.
    init(_ bytes: [UInt8], boot: String) {
        for line in bytes.split(separator: UInt8(ascii: "\n")) {
            // A process that died may have left a gap in front of a line.
            guard let record = CopyRecord(line: line.drop { $0 == 0 }) else { continue }
            if case .process(let other) = record { isOfThisBoot = other == boot && !boot.isEmpty }
            add(record)
        }
    }

    /// What is added from now on is of the running boot.
    mutating func startProcess() { isOfThisBoot = true }

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
            done[item] = Done(source: source, result: result)
        }
    }
}
