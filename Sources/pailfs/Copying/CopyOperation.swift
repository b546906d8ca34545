import Basics
import Glibc
import ObjectStorage

/// Copies single items from one place to another; several at the same time.
protocol CopyOperation: Sendable {
    /// The name of the copy in the destination, for the journal and for people.
    func destination(of item: CopyItem) -> ByteString
    /// Copies the item, unless `rules` leave it out.
    func copy(_ item: CopyItem) async throws(ObjectStoreError) -> CopyOutcome
}

/// The result of one item's copy.
enum CopyOutcome: Sendable, Hashable {
    case copied
    /// The destination has it already.
    case same
    /// It would be copied.
    case planned
}

/// The options of the command that concern every item.
struct CopyRules: Sendable {
    var headers: [HeaderChange] = []
    var storageClass: String?
    /// Fails where the destination exists.
    var isExclusive = false
    /// Leaves out what is the same.
    var updates = false
    /// Changes nothing.
    var isDry = false
    var followsLinks = false
}

/// The options, journal, counts and memory of one command, which all its operations share. Any thread may use it.
struct CopyContext: Sendable {
    var rules = CopyRules()
    var journal: CopyJournal?
    var tally = CopyTally()
    /// The objects in the destination that earlier processes have made, with their ETags.
    var present: [ByteString: String] = [:]
    /// Bounds the bytes that pass through this machine from one store to another.
    var memory = MemoryBudget(limit: 256 << 20)

    /// Whether an earlier process has copied this state of the source, and `result` is still there.
    func isDone(_ item: ByteString, source: String, result: String?) -> Bool {
        guard let done = journal?.doneBefore[item], let result else { return false }
        return done.source == source && done.result == result
    }

    /// Runs `body`, for which `bytes` of memory are reserved.
    func withMemory<Value: Sendable>(
        _ bytes: Int64, _ body: () async throws(ObjectStoreError) -> Value
    ) async throws(ObjectStoreError) -> Value {
        do throws(CancellationError) { try await memory.reserve(Int(bytes)) } catch {
            throw ObjectStoreError(.cancelled, .get, message: "the copy was cancelled")
        }
        defer { memory.release(Int(bytes)) }
        return try await body()
    }

    func finished(_ item: ByteString, source: String, result: String) {
        journal?.add(.done(item: item, source: source, result: result))
    }
}

extension ObjectStore {
    /// nil where there is no such object.
    func headIfPresent(_ key: ObjectKey) async throws(ObjectStoreError) -> ObjectInfo? {
        do throws(ObjectStoreError) { return try await head(key, condition: nil) } catch {
            guard error.kind == .notFound else { throw error }
            return nil
        }
    }

    /// The checksums of the content, as far as the store returns them to these credentials: on S3 the parts' need a permission of
    /// their own.
    func checksums(of key: ObjectKey, _ info: ObjectInfo) async throws(ObjectStoreError) -> [CheckedPart] {
        let whole = info.checksum.map { [CheckedPart(size: info.version.size, $0)] } ?? []
        do throws(ObjectStoreError) {
            let parts = try await checksums(of: key, info.version)
            return parts.isEmpty ? whole : parts
        } catch {
            guard [.accessDenied, .notSupported, .invalidRequest].contains(error.kind) else { throw error }
            return whole
        }
    }

    /// Throws when the object exists.
    func requireAbsent(_ key: ObjectKey) async throws(ObjectStoreError) {
        if try await headIfPresent(key) != nil { throw ObjectStoreError(existing: key.bytes) }
    }
}

extension ObjectStoreError {
    /// The destination of a copy exists and must not be replaced.
    init(existing name: ByteString) {
        self.init(
            ofFile: "\(SafeText.of(name.description)) already exists; leave out -n to replace it", errno: EEXIST, .put)
    }
}
