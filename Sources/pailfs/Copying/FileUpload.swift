import Basics
import Commits
import Glibc
import ObjectStorage

/// Uploads one local file: with one PUT, or in parts where it is larger than one part. Its bytes are read from the file as they are
/// sent.
struct FileUpload: Sendable {
    let store: any ObjectStore
    let options: CommitOptions
    var journal: CopyJournal?
    /// Names the copy in the journal.
    var item: ByteString = ""
    var skipped: @Sendable (Int64) -> Void = { _ in }

    /// Throws: with nothing stored when the file changes meanwhile.
    func send(_ file: SourceFile, as request: PutRequest) async throws(ObjectStoreError) -> PutAnswer {
        do throws(ObjectStoreError) { return try await sendUnmarked(file, as: request) } catch {
            throw error.markedIfLocal
        }
    }

    private func sendUnmarked(
        _ file: SourceFile, as request: PutRequest
    ) async throws(ObjectStoreError) -> PutAnswer {
        let limits = store.capabilities
        guard file.size <= options.largestSize(for: limits) else {
            throw ObjectStoreError(
                ofFile: "\(file.file.path) has \(ByteSize.format(file.size)); the store takes objects of up to "
                    + ByteSize.format(options.largestSize(for: limits)), errno: EFBIG, .put)
        }
        guard file.size > options.largestPut(for: limits) else {
            // The file was larger when an earlier process began to send it.
            await journal?.abortUpload(of: item, in: store)
            return try await put(file, request)
        }
        var upload = PartedUpload(
            store: store, request: request, size: file.size, partSize: options.partSize, source: file.identity)
        (upload.journal, upload.item, upload.skipped) = (journal, item, skipped)
        do throws(ObjectStoreError) {
            return try await upload.run { [store] (part, range) throws(ObjectStoreError) in
                try await store.uploadPart(part, body: file.body(range))
            } check: { () throws(ObjectStoreError) in
                do throws(ByteTransferError) { try file.requireUnchanged() } catch {
                    throw ObjectStoreError(ofFile: error.reason, errno: error.errno, .completeUpload)
                }
            }
        } catch {
            guard error.isRefusalOfParts, file.size <= limits.largestPut else { throw error }
            return try await put(file, request)
        }
    }

    private func put(_ file: SourceFile, _ request: PutRequest) async throws(ObjectStoreError) -> PutAnswer {
        do throws(ObjectStoreError) {
            return try await store.put(request, body: file.body(0..<file.size))
        } catch { return try await store.found(request, size: file.size, after: error) }
    }
}

extension ObjectStoreError {
    /// Whether the server has no multipart uploads, or the credentials may not make them. Swift refuses the manifest only, after
    /// all parts.
    var isRefusalOfParts: Bool {
        switch operation {
        case .createUpload: kind == .notSupported || kind == .accessDenied
        case .completeUpload: kind == .notSupported
        default: false
        }
    }
}
