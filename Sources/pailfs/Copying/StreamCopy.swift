import Basics
import Commits
import Digests
import Glibc
import ObjectStorage

/// Standard input as an object: one PUT if it is short, else parts that are sent while more is read. Parts are kept in memory while
/// they are sent, so that a request can be retried.
struct StreamUpload: Sendable {
    /// Bytes of parts in memory at a time; one part may be larger.
    private static let mostBytes: Int64 = 64 << 20

    let store: any ObjectStore
    let options: CommitOptions
    /// read(2) of this descriptor gives the bytes.
    let descriptor: Int32

    func run(_ request: PutRequest) async throws(ObjectStoreError) -> PutAnswer {
        let layout = PartLayout(partSize: options.partSize, size: 0, capabilities: store.capabilities)
        let first = try read(layout.range(of: 0).length)
        guard Int64(first.count) == layout.range(of: 0).length else {
            return try await store.put(request, body: MemorySource(first))
        }
        guard store.capabilities.mostParts > 1 else {
            throw ObjectStoreError(
                ofFile:
                    "this store has no multipart uploads, and the length of standard input is not known; copy a file",
                errno: EFBIG, .put)
        }
        var creation = request
        creation.condition = nil
        let upload = try await store.createUpload(creation)
        do throws(ObjectStoreError) {
            let (parts, size) = try await send(first, layout, request.key, upload)
            do throws(ObjectStoreError) {
                return try await store.completeUpload(request.key, upload, parts: parts, condition: request.condition)
            } catch { return try await store.found(request, size: size, after: error) }
        } catch {
            try? await store.abortUpload(request.key, upload)
            throw error
        }
    }

    private func send(
        _ first: [UInt8], _ layout: PartLayout, _ key: ObjectKey, _ upload: UploadID
    ) async throws(ObjectStoreError) -> ([UploadedPart], Int64) {
        var parts: [UploadedPart] = []
        var failure: ObjectStoreError?
        var (size, index): (Int64, Int) = (0, 0)
        await withTaskGroup(of: Result<UploadedPart, ObjectStoreError>.self) { group in
            var (bytes, underWay): ([UInt8], Int64) = (first, 0)
            func take(_ result: Result<UploadedPart, ObjectStoreError>) {
                switch result {
                case .success(let part):
                    parts.append(part)
                    underWay -= part.size
                case .failure(let error): failure = failure ?? error
                }
            }
            while !bytes.isEmpty, failure == nil {
                let part = PartRequest(key, upload, number: index + 1)
                let body = MemorySource(bytes)
                group.addTask { [store] in
                    do throws(ObjectStoreError) { return .success(try await store.uploadPart(part, body: body)) } catch
                    {
                        return .failure(error)
                    }
                }
                (size, underWay) = (size + Int64(bytes.count), underWay + Int64(bytes.count))
                if Int64(bytes.count) < layout.range(of: index).length { break }
                index += 1
                let wanted = layout.range(of: index).length
                while underWay > 0, underWay + wanted > Self.mostBytes, let result = await group.next() { take(result) }
                if failure != nil { break }
                do throws(ObjectStoreError) { bytes = try read(wanted) } catch { failure = error }
                if size >= layout.capacity, !bytes.isEmpty {
                    failure = ObjectStoreError(
                        ofFile: "standard input has more than the \(ByteSize.format(layout.capacity)) of one object",
                        errno: EFBIG, .uploadPart)
                }
            }
            for await result in group { take(result) }
        }
        if let failure { throw failure }
        return (parts.sorted { $0.number < $1.number }, size)
    }

    /// Up to `count` bytes; fewer at the end of the input. read(2)
    private func read(_ count: Int64) throws(ObjectStoreError) -> [UInt8] {
        var failure: Int32?
        let bytes = [UInt8](unsafeUninitializedCapacity: Int(count)) { buffer, initialized in
            while initialized < buffer.count {
                let rest = UnsafeMutableRawBufferPointer(UnsafeMutableBufferPointer(rebasing: buffer[initialized...]))
                let got = Glibc.read(descriptor, rest.baseAddress, rest.count)
                if got < 0, errno == EINTR { continue }
                if got < 0 { failure = errno }
                if got <= 0 { return }
                initialized += got
            }
        }
        if let failure {
            throw ObjectStoreError(
                FileError(errno: failure, operation: "read", path: "standard input"), .put)
        }
        return bytes
    }
}

/// One range that was fetched.
private struct Piece: Sendable {
    let index: Int
    let bytes: Result<[UInt8], ObjectStoreError>
}

/// One version of an object on standard output: ranges are fetched ahead, several at a time, and written in their order.
struct StreamDownload: Sendable {
    let store: any ObjectStore
    let key: ObjectKey
    let version: ObjectVersion
    /// Writes bytes; false, with the reason in errno, when they could not be written.
    var write: @Sendable (ArraySlice<UInt8>) -> Bool = { Output.write($0) }
    var width = 4

    func run() async throws(ObjectStoreError) {
        let info = try await store.head(key, condition: .ifMatch(version.etag))
        // A store may have the checksum of one part only, or of many.
        let parts = try await store.checksums(of: key, info)
        let checksum = parts.count == 1 ? parts[0].checksum : info.checksum
        var digest = checksum?.begin()
        let ranges = CopyPlan.missingRanges(size: version.size, known: [])
        var written: Int64 = 0
        var failure: ObjectStoreError?
        await withTaskGroup(of: Piece.self) { group in
            var next = 0
            var arrived: [Int: [UInt8]] = [:]
            for index in ranges.indices {
                // Up to `width` ranges are fetched at a time, those that have arrived early included.
                while next < min(ranges.count, index + width) {
                    let (place, range) = (next, ranges[next])
                    group.addTask { Piece(index: place, bytes: await fetched(range)) }
                    next += 1
                }
                while arrived[index] == nil, failure == nil, let piece = await group.next() {
                    switch piece.bytes {
                    case .success(let bytes): arrived[piece.index] = bytes
                    case .failure(let error): failure = error
                    }
                }
                guard failure == nil, let bytes = arrived.removeValue(forKey: index) else { break }
                digest?.update(bytes)
                if !write(bytes[...]) {
                    failure = Self.outputFailed(errno)
                    break
                }
                written += Int64(bytes.count)
            }
            group.cancelAll()
        }
        if let failure { throw failure }
        precondition(written == version.size, "all ranges were written, and nothing failed")
        if let digest, let checksum, digest.finish() != checksum.digest {
            throw ObjectStoreError(
                ofFile: "the bytes on standard output are not those of the object: they have another \(checksum.name)",
                errno: EIO, .get)
        }
    }

    private func fetched(_ range: ByteRange) async -> Result<[UInt8], ObjectStoreError> {
        do throws(ObjectStoreError) {
            return .success(try await CarriedCopy.bytes(range, of: key, version.etag, in: store))
        } catch { return .failure(error) }
    }

    private static func outputFailed(_ errno: Int32) -> ObjectStoreError {
        ObjectStoreError(FileError(errno: errno, operation: "write", path: "standard output"), .get)
    }
}
