import Basics
import Foundation
import ObjectStorage
import TestSupport
import Testing

@testable import pailfs

/// Uploads of earlier processes that cannot become the object.
@Suite struct CopyLeftoverTests {
    private func interrupted() async throws -> CopyRig {
        let rig = try CopyRig()
        try rig.write("t/big", CopyRig.bytes(3 * CopyRig.partSize))
        rig.store.fault = CopyRig.cut(.completeUpload, after: 0)
        try await rig.upload("t", to: "p", journal: try rig.journal())
        #expect(rig.store.uploadsInProgress.count == 1)
        rig.store.fault = nil
        rig.store.forgetRequests()
        return rig
    }

    @Test func anUploadWhosePartsMayNotBeListedIsMadeAgain() async throws {
        let rig = try await interrupted()
        rig.store.fault = { operation, key in
            guard operation == .listParts else { return nil }
            return ObjectStoreError(.accessDenied, operation, key: key, status: 403, message: "denied")
        }
        try await rig.upload("t", to: "p", journal: try rig.journal())
        #expect(rig.failed.isEmpty && rig.store.content("p/big") == rig.content("t/big"))
        #expect(rig.store.uploadsInProgress.isEmpty)
    }

    @Test func anUploadStaysWhileTheCredentialsAreRefused() async throws {
        let rig = try await interrupted()
        rig.store.fault = { operation, key in
            ObjectStoreError(.credentialsExpired, operation, key: key, status: 403, message: "expired")
        }
        await #expect(throws: ObjectStoreError.self) {
            try await rig.upload("t", to: "p", journal: try rig.journal())
        }
        rig.store.fault = nil
        rig.store.forgetRequests()
        try await rig.upload("t", to: "p", journal: try rig.journal())
        #expect(rig.store.count(.uploadPart) == 0 && rig.store.content("p/big") == rig.content("t/big"))
    }

    @Test func anUploadOfAFileThatShrankIsAborted() async throws {
        let rig = try await interrupted()
        try rig.write("t/big", [1])
        try await rig.upload("t", to: "p", journal: try rig.journal())
        #expect(rig.store.content("p/big") == [1] && rig.store.uploadsInProgress.isEmpty)
    }

    @Test func theEndOfACopyAbortsTheUploadOfAFileThatWasRemoved() async throws {
        let rig = try await interrupted()
        try FileManager.default.removeItem(atPath: rig.path("t/big"))
        try rig.write("t/a", [1])
        let journal = try rig.journal()
        try await rig.upload("t", to: "p", journal: journal)
        await journal.endTransfers(in: rig.store)
        journal.close(isComplete: true)
        #expect(rig.store.uploadsInProgress.isEmpty && rig.names("journal").isEmpty)
    }

    @Test func theEndOfACopyRemovesThePartOfAnObjectThatWasRemoved() async throws {
        let rig = try CopyRig()
        rig.store.setObject("p/big", CopyRig.bytes(3 * CopyPlan.rangeLength))
        rig.store.setObject("p/a", [1])
        rig.store.fault = CopyRig.cut(.get, after: 1)
        try await rig.download("p/", to: "t", journal: try rig.journal())
        #expect(rig.names("t").contains { $0.hasSuffix(".part") })
        rig.store.fault = nil
        rig.store.removeObject("p/big")
        let journal = try rig.journal()
        try await rig.download("p/", to: "t", journal: journal)
        await journal.endTransfers(in: nil)
        journal.close(isComplete: true)
        #expect(rig.names("t") == ["a"] && rig.names("journal").isEmpty)
    }
}
