import Basics

/// Writes records: one fact a line, words separated by spaces, every byte outside printable ASCII as `%XX`, and `end`
/// as the last line, so that a record cut off in the middle shows.
struct RecordWriter {
    private(set) var bytes: [UInt8] = []

    mutating func line(_ words: String...) { line(words) }

    mutating func line(_ words: [String]) {
        for (index, word) in words.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: " ")) }
            append(word.utf8)
        }
        bytes.append(UInt8(ascii: "\n"))
    }

    mutating func line(_ name: String, bytes value: ByteString) {
        append(name.utf8)
        bytes.append(UInt8(ascii: " "))
        append(value.bytes)
        bytes.append(UInt8(ascii: "\n"))
    }

    consuming func finish() -> [UInt8] {
        bytes += Array("end\n".utf8)
        return bytes
    }

    private mutating func append(_ word: some Sequence<UInt8>) {
        let digits = Array("0123456789ABCDEF".utf8)
        for byte in word {
            if byte > 0x20, byte < 0x7f, byte != UInt8(ascii: "%") {
                bytes.append(byte)
            } else {
                bytes += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
    }
}

/// The lines of a record as words of bytes; nil unless it is whole.
struct RecordReader {
    struct Line {
        let words: [ByteString]

        func text(_ index: Int) -> String { index < words.count ? words[index].description : "" }
        func number(_ index: Int) -> Int64? { Int64(text(index)) }
        func hexadecimal(_ index: Int) -> [UInt8]? { Hex.decode(text(index)) }
    }

    let lines: [Line]

    init?(_ bytes: [UInt8]) {
        guard bytes.suffix(5).elementsEqual("\nend\n".utf8) else { return nil }
        lines = bytes.dropLast(4).split(separator: UInt8(ascii: "\n")).map { line in
            Line(
                words: line.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false).map {
                    ByteString(Self.unescape($0))
                })
        }
    }

    private static func unescape(_ word: ArraySlice<UInt8>) -> [UInt8] {
        guard word.contains(UInt8(ascii: "%")) else { return Array(word) }
        var bytes: [UInt8] = []
        var index = word.startIndex
        while index < word.endIndex {
            if word[index] == UInt8(ascii: "%"), index + 2 < word.endIndex,
                let high = Hex.value(word[index + 1]), let low = Hex.value(word[index + 2])
            {
                bytes.append(high << 4 | low)
                index += 3
            } else {
                bytes.append(word[index])
                index += 1
            }
        }
        return bytes
    }
}

extension RecordWriter {
    mutating func time(_ name: String, _ time: Timestamp) {
        line(name, String(time.seconds), String(time.nanoseconds))
    }

    mutating func describe(_ description: ObjectDescription) {
        for header in description.headers { line("header", header.name, header.value) }
        for field in description.metadata { line("meta", field.name, field.value) }
        for tag in description.tags { line("tag", tag.name, tag.value) }
        for property in description.properties { line("property", property.name, property.value) }
        line("class", description.storageClass.rawValue)
        line(grants: description.access)
        switch description.encryption {
        case .managed: break
        case .unstated: line("encryption-unstated")
        case .keyService(let mode, let keyID): line("key-service", mode, keyID)
        case .customer(let keyMD5): line("customer-key", keyMD5)
        }
    }

    mutating func line(grants access: AccessControl) {
        if access.isInherited { line("grants-inherited") }
        for grant in access.grants {
            switch grant.grantee {
            case .user(let id): line("grant", grant.permission, "user", id)
            case .group(let uri): line("grant", grant.permission, "group", uri)
            case .email(let address): line("grant", grant.permission, "email", address)
            }
        }
    }

    mutating func checksum(_ checksum: StoredChecksum) {
        line("checksum", checksum.algorithm.rawValue, Hex.encode(checksum.digest), String(checksum.composedOf ?? 0))
    }

    mutating func segments(_ segments: [ContentSegment]) {
        for segment in segments { line("segment", segment.file, String(segment.offset), String(segment.length)) }
    }

    /// A part with what belongs to it on the lines behind it.
    mutating func part(_ part: PartRecord) {
        line(
            "part", String(part.number), String(part.size), Hex.encode(part.md5), String(part.modified.seconds),
            String(part.modified.nanoseconds))
        if let checksum = part.checksum { self.checksum(checksum) }
        if let crc64 = part.crc64 { line("crc64", String(crc64)) }
        segments(part.segments)
    }
}

extension RecordReader.Line {
    var time: Timestamp? {
        guard let seconds = number(1), let nanoseconds = Int32(text(2)) else { return nil }
        return Timestamp(seconds: seconds, nanoseconds: nanoseconds)
    }

    var checksum: StoredChecksum? {
        guard let algorithm = ChecksumAlgorithm(rawValue: text(1)), let digest = hexadecimal(2) else { return nil }
        let parts = number(3).map { Int($0) } ?? 0
        return StoredChecksum(algorithm: algorithm, digest: digest, composedOf: parts == 0 ? nil : parts)
    }

    var segment: ContentSegment? {
        guard let offset = number(2), let length = number(3), offset >= 0, length >= 0,
            !offset.addingReportingOverflow(length).overflow
        else { return nil }
        return ContentSegment(file: text(1), offset: offset, length: length)
    }

    var grant: AccessControl.Grant? {
        let grantee: AccessControl.Grant.Grantee? =
            switch text(2) {
            case "user": .user(id: text(3))
            case "group": .group(uri: text(3))
            case "email": .email(text(3))
            default: nil
            }
        return grantee.map { AccessControl.Grant(grantee: $0, permission: text(1)) }
    }
}

extension ObjectDescription {
    /// Takes a line if it is one of a description's.
    mutating func take(_ line: RecordReader.Line) {
        switch line.text(0) {
        case "header": headers.append(Field(line.text(1), line.text(2)))
        case "meta": metadata.append(Field(line.text(1), line.text(2)))
        case "tag": tags.append(Field(line.text(1), line.text(2)))
        case "property": properties.append(Field(line.text(1), line.text(2)))
        case "class": storageClass = StorageClass(rawValue: line.text(1)) ?? .standard
        case "grants-inherited": access.isInherited = true
        case "grant": if let grant = line.grant { access.grants.append(grant) }
        case "encryption-unstated": encryption = .unstated
        case "key-service": encryption = .keyService(mode: line.text(1), keyID: line.text(2))
        case "customer-key": encryption = .customer(keyMD5: line.text(1))
        default: break
        }
    }
}

extension PartRecord {
    /// The parts among `lines`, each with its own checksum and segments.
    static func read(_ lines: some Collection<RecordReader.Line>) -> [PartRecord] {
        var parts: [PartRecord] = []
        for line in lines {
            switch line.text(0) {
            case "part":
                guard let number = line.number(1), let size = line.number(2), let md5 = line.hexadecimal(3),
                    let seconds = line.number(4), let nanoseconds = Int32(line.text(5))
                else { continue }
                parts.append(
                    PartRecord(
                        number: Int(number), size: size, md5: md5,
                        modified: Timestamp(seconds: seconds, nanoseconds: nanoseconds), checksum: nil, segments: []))
            case "checksum" where !parts.isEmpty: parts[parts.count - 1].checksum = line.checksum
            case "crc64" where !parts.isEmpty: parts[parts.count - 1].crc64 = UInt64(line.text(1))
            case "segment" where !parts.isEmpty:
                if let segment = line.segment { parts[parts.count - 1].segments.append(segment) }
            default: break
            }
        }
        return parts
    }

    func with(segments: [ContentSegment]) -> PartRecord {
        var part = self
        part.segments = segments
        return part
    }
}

extension ObjectKind {
    fileprivate func write(_ writer: inout RecordWriter) {
        switch self {
        case .normal: break
        case .appendable(let isSealed): writer.line("appendable", isSealed ? "sealed" : "open")
        case .symlink(let target): writer.line("symlink", bytes: target)
        }
    }
}

extension ObjectRecord {
    var text: [UInt8] {
        var writer = RecordWriter()
        writer.line("pailstore-object", "1")
        writer.line("key", bytes: key)
        writer.line("size", String(size))
        writer.line("etag", etag)
        writer.time("modified", modified)
        writer.describe(description)
        kind.write(&writer)
        if let checksum { writer.checksum(checksum) }
        if let crc64 { writer.line("crc64", String(crc64)) }
        if let version {
            writer.line(
                "version", version.id, version.order.map(String.init) ?? "",
                version.isDeleteMarker ? "delete-marker" : "")
        }
        if let restoration {
            writer.time("restore-ready", restoration.ready)
            if let expires = restoration.expires { writer.time("restore-expires", expires) }
            if let order = restoration.order {
                writer.time("restore-ordered", order.date)
                writer.line("restore-tier", order.tier)
            }
        }
        writer.segments(segments)
        for part in parts { writer.part(part.with(segments: [])) }
        return writer.finish()
    }

    /// nil for more than a file can have.
    private static func length(of segments: [ContentSegment]) -> Int64? {
        var length: Int64 = 0
        for segment in segments {
            let (sum, overflow) = length.addingReportingOverflow(segment.length)
            guard !overflow else { return nil }
            length = sum
        }
        return length
    }

    /// nil when the text is damaged.
    init?(text: [UInt8]) {
        guard let reader = RecordReader(text), reader.lines.first?.text(0) == "pailstore-object" else { return nil }
        var (key, size, etag, modified): (ByteString?, Int64?, String?, Timestamp?)
        var description = ObjectDescription()
        var (checksum, crc64, restoration): (StoredChecksum?, UInt64?, Restoration?)
        var kind = ObjectKind.normal
        var version: VersionRecord?
        var segments: [ContentSegment] = []
        let partsStart = reader.lines.firstIndex { $0.text(0) == "part" } ?? reader.lines.count
        for line in reader.lines[..<partsStart] {
            switch line.text(0) {
            case "key": key = line.words.count > 1 ? line.words[1] : nil
            case "size": size = line.number(1)
            case "etag": etag = line.text(1)
            case "modified": modified = line.time
            case "appendable": kind = .appendable(isSealed: line.text(1) == "sealed")
            case "symlink": kind = .symlink(target: line.words.count > 1 ? line.words[1] : "")
            case "checksum": checksum = line.checksum
            case "crc64": crc64 = UInt64(line.text(1))
            case "version":
                version = VersionRecord(
                    id: line.text(1), order: UInt64(line.text(2)), isDeleteMarker: line.text(3) == "delete-marker")
            case "restore-ready": restoration = line.time.map { Restoration(ready: $0) }
            case "restore-expires": restoration?.expires = line.time
            case "restore-ordered": restoration?.order = line.time.map { .init(tier: "", date: $0) }
            case "restore-tier": restoration?.order?.tier = line.text(1)
            case "segment": if let segment = line.segment { segments.append(segment) }
            default: description.take(line)
            }
        }
        guard let key, let size, let etag, let modified, Self.length(of: segments) == size else {
            return nil
        }
        self.init(
            key: key, size: size, etag: etag, modified: modified, description: description, checksum: checksum,
            crc64: crc64, kind: kind, parts: PartRecord.read(reader.lines[partsStart...]), segments: segments,
            restoration: restoration)
        self.version = version
    }
}
