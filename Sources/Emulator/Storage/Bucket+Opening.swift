import Basics
import Digests

extension Bucket {
    static let temporaryPrefix = "new-"

    /// 160 bits of the key's SHA-256 and the sequence number: as good as unique, and short for any key.
    static func recordName(of key: ByteString, _ sequence: UInt64) -> String {
        Hex.encode(SHA256.of(key.bytes).prefix(20)) + "-" + hexadecimal(sequence)
    }

    static func isRecord(in directory: String) -> Bool { Disk.exists("\(directory)/bucket") }

    static func write(_ record: BucketRecord, to directory: String, sync: Bool) throws(StorageError) {
        var writer = RecordWriter()
        writer.line("pailstore-bucket", "1")
        writer.time("created", record.created)
        writer.line("region", record.region)
        writer.line(grants: record.access)
        writer.line(cors: record.cors)
        if let versioning = record.versioning { writer.line("versioning", versioning.rawValue) }
        for property in record.properties { writer.line("property", property.name, property.value) }
        let temporary = "\(directory)/\(temporaryPrefix)\(RandomID.hex())"
        try Disk.write(writer.finish(), to: temporary, sync: sync)
        try Disk.rename(temporary, to: "\(directory)/bucket")
        if sync {
            try Disk.syncDirectory(directory)
            try Disk.syncDirectory("\(directory)/..")
        }
    }

    /// Makes the directories of a new bucket; its record comes last and makes it one.
    static func create(_ record: BucketRecord, in directory: String, sync: Bool) throws(StorageError) -> Bucket {
        for path in [directory, "\(directory)/objects", "\(directory)/content", "\(directory)/uploads"] {
            try Disk.makeDirectory(path)
        }
        try write(record, to: directory, sync: sync)
        return Bucket(directory: directory, state: State(record: record), sync: sync)
    }

    /// Reads a bucket from disk and removes what a dead process left half done. `report` takes sentences about damage.
    static func open(
        _ name: String, in directory: String, sync: Bool, report: (String) -> Void
    ) throws(StorageError) -> Bucket {
        var state = State(record: try readRecord(name, in: directory))
        let contentDirectory = "\(directory)/content"
        var loading = Loading(directory: directory)
        try loading.readObjects(keepsVersions: state.record.versioning != nil)
        state.sequence = loading.sequence
        state.load(
            loading.objects.map { sequence, record in
                let content = Content(record.segments, in: contentDirectory, kept: true)
                return StoredObject(record: record, content: content, sequence: sequence)
            })
        for upload in try loading.readUploads() {
            state.sequence = max(state.sequence, upload.place.sequence)
            state.uploads.replace(upload.place, with: upload)
        }
        for path in loading.damaged { report("\(path): damaged record, not served") }
        // A damaged record may be the only one that names some content: then nothing is swept.
        if loading.damaged.isEmpty {
            for file in try Disk.names(in: contentDirectory) where !loading.named.contains(file) {
                Disk.unlink("\(contentDirectory)/\(file)")
            }
        }
        return Bucket(directory: directory, state: state, sync: sync)
    }

    private static func readRecord(_ name: String, in directory: String) throws(StorageError) -> BucketRecord {
        let path = "\(directory)/bucket"
        guard let reader = RecordReader(try Disk.read(path)) else {
            throw .damaged(path: path)
        }
        var (created, region): (Timestamp, String) = (.epoch, "us-east-1")
        var access = AccessControl()
        var cors: [CORSRule] = []
        var properties: [Field] = []
        var versioning: Versioning?
        for line in reader.lines {
            switch line.text(0) {
            case "created": created = line.time ?? created
            case "region": region = line.text(1)
            case "grant": if let grant = line.grant { access.grants.append(grant) }
            case "property": properties.append(Field(line.text(1), line.text(2)))
            case "versioning": versioning = Versioning(rawValue: line.text(1))
            default: cors.take(line)
            }
        }
        return BucketRecord(
            name: name, created: created, region: region, access: access, cors: cors, properties: properties,
            versioning: versioning)
    }
}

/// Collects what is on disk while a bucket is opened.
private struct Loading {
    let directory: String
    private(set) var objects: [(sequence: UInt64, record: ObjectRecord)] = []
    /// Content files that some record names.
    private(set) var named: Set<String> = []
    private(set) var damaged: [String] = []
    private(set) var sequence: UInt64 = 0

    init(directory: String) { self.directory = directory }

    /// Reads the newest record of each key, or, of a bucket that `keepsVersions`, of each version.
    mutating func readObjects(keepsVersions: Bool) throws(StorageError) {
        let path = "\(directory)/objects"
        var newest: [Substring: (sequence: UInt64, name: String)] = [:]
        var all: [(sequence: UInt64, name: String)] = []
        var stale: [String] = []
        for name in try Disk.names(in: path) {
            let halves = name.split(separator: "-", omittingEmptySubsequences: false)
            guard halves.count == 2, halves[0].utf8.count == 40, halves[1].utf8.count == 16,
                let number = UInt64(halves[1], radix: 16)
            else {
                stale.append(name)
                continue
            }
            sequence = max(sequence, number)
            guard !keepsVersions else {
                all.append((number, name))
                continue
            }
            guard let known = newest[halves[0]] else {
                newest[halves[0]] = (number, name)
                continue
            }
            stale.append(known.sequence < number ? known.name : name)
            if known.sequence < number { newest[halves[0]] = (number, name) }
        }
        for name in stale { Disk.unlink("\(path)/\(name)") }
        let wanted = keepsVersions ? all : Array(newest.values)
        objects.reserveCapacity(wanted.count)
        for (number, name) in wanted {
            guard let record = ObjectRecord(text: try Disk.read("\(path)/\(name)")) else {
                damaged.append("\(path)/\(name)")
                continue
            }
            objects.append((number, record))
        }
        objects.sort { ($0.record.key, $0.sequence) < ($1.record.key, $1.sequence) }
        if keepsVersions { dropReplacedVersions(in: path) }
        for object in objects {
            for segment in object.record.segments { named.insert(segment.file) }
        }
    }

    /// Of two records of one version the process died before it removed the older.
    private mutating func dropReplacedVersions(in path: String) {
        struct Version: Hashable {
            let key: ByteString
            let id: String
        }
        var seen: Set<Version> = []
        var kept: [(sequence: UInt64, record: ObjectRecord)] = []
        for (number, record) in objects.reversed() {
            if seen.insert(Version(key: record.key, id: record.version?.id ?? VersionRecord.null)).inserted {
                kept.append((number, record))
            } else {
                Disk.unlink("\(path)/\(Bucket.recordName(of: record.key, number))")
            }
        }
        objects = kept.reversed()
    }

    mutating func readUploads() throws(StorageError) -> [Upload] {
        let path = "\(directory)/uploads"
        var uploads: [Upload] = []
        for id in try Disk.names(in: path) {
            let upload = "\(path)/\(id)"
            guard Disk.exists("\(upload)/upload"),
                let reader = RecordReader(try Disk.read("\(upload)/upload")),
                let (record, place) = Self.uploadRecord(reader.lines)
            else {
                Disk.removeTree(upload)
                continue
            }
            let state = try readParts(in: upload)
            // Parts whose bytes already belong to an object: the upload was completed, only its end is missing.
            let files = state.parts.values.flatMap { $0.content.segments.map(\.file) }
            if files.contains(where: named.contains) {
                Disk.removeTree(upload)
                continue
            }
            named.formUnion(files)
            uploads.append(Upload(id: id, record: record, sequence: place, directory: upload, state: state))
        }
        return uploads
    }

    private func readParts(in upload: String) throws(StorageError) -> Upload.State {
        var state = Upload.State()
        for name in try Disk.names(in: upload) where name != "upload" {
            let halves = name.split(separator: "-")
            guard halves.count == 2, Int(halves[0]) != nil, let number = UInt64(halves[1]),
                let reader = RecordReader(try Disk.read("\(upload)/\(name)")),
                let part = PartRecord.read(reader.lines).first
            else {
                Disk.unlink("\(upload)/\(name)")
                continue
            }
            state.sequence = max(state.sequence, number)
            if let known = state.parts[part.number], known.sequence > number { continue }
            state.parts[part.number] = Upload.Part(
                record: part, content: Content(part.segments, in: "\(directory)/content", kept: true),
                sequence: number)
        }
        return state
    }

    private static func uploadRecord(_ lines: [RecordReader.Line]) -> (UploadRecord, UInt64)? {
        var (key, initiated, sequence): (ByteString?, Timestamp?, UInt64?)
        var description = ObjectDescription()
        var algorithm: ChecksumAlgorithm?
        var wantsFull = false
        for line in lines {
            switch line.text(0) {
            case "key": key = line.words.count > 1 ? line.words[1] : nil
            case "sequence": sequence = UInt64(line.text(1))
            case "initiated": initiated = line.time
            case "wants": (algorithm, wantsFull) = (ChecksumAlgorithm(rawValue: line.text(1)), line.text(2) == "full")
            default: description.take(line)
            }
        }
        guard let key, let initiated, let sequence else { return nil }
        let record = UploadRecord(
            key: key, initiated: initiated, description: description, checksumAlgorithm: algorithm,
            wantsFullChecksum: wantsFull)
        return (record, sequence)
    }
}
